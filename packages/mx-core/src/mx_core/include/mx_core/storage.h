/* SPDX-License-Identifier: Apache-2.0
 *
 * Interfaces "storage" (memory of a device) and "resource" (random streams).
 */
#ifndef MX_CORE_STORAGE_H_
#define MX_CORE_STORAGE_H_

#include "mx_core/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MX_STORAGE_CAPSULE "mx.storage.v1"
#define MX_STORAGE_MAJOR 1
#define MX_STORAGE_MINOR 0

/* A piece of device memory.  Owns: whoever called alloc, until free. */
typedef struct mx_block {
  void* data;   /* aligned to at least 64 bytes; NULL when bytes == 0 */
  size_t bytes; /* as asked for */
  mx_context context;
  void* handle; /* the manager's own */
} mx_block;

typedef struct mx_storage_stats {
  uint32_t size;
  uint32_t reserved;
  uint64_t bytes_in_use;   /* asked for and not freed */
  uint64_t bytes_pooled;   /* free, kept for reuse */
  uint64_t bytes_peak;     /* the largest bytes_in_use so far */
  uint64_t bytes_limit;    /* 0: none */
  uint64_t allocations;    /* alloc calls */
  uint64_t pool_hits;      /* answered from the pool */
} mx_storage_stats;

typedef struct mx_storage_api {
  mx_table_head head;
  void* self;

  /* Threads: any.  Does not block on the engine.  Fails with MX_ERROR_MEMORY and a message that
   * holds bytes asked, in use, pooled and the limit.  `tag` (may be NULL) is a process-lifetime
   * string that names the holder in statistics. */
  int32_t (*alloc)(void* self, mx_context context, size_t bytes, const char* tag, mx_block* block,
                   mx_error* error);
  /* Gives the block back to the pool.  Threads: any.  The block must not be in use by anyone. */
  void (*free)(void* self, const mx_block* block);
  /* Gives it back to the system at once. */
  void (*direct_free)(void* self, const mx_block* block);
  /* Returns all pooled memory of a context to the system. */
  void (*release_all)(void* self, mx_context context);
  int32_t (*stats)(void* self, mx_context context, mx_storage_stats* stats, mx_error* error);
  void (*reset_peak)(void* self, mx_context context);
  /* bytes 0: no limit. */
  void (*set_limit)(void* self, mx_context context, uint64_t bytes);
} mx_storage_api;

#define MX_SHARED_CAPSULE "mx.shared.v1"
#define MX_SHARED_MAJOR 1
#define MX_SHARED_MINOR 0

/* A piece of memory that processes share.  It lives as long as one of them has it mapped or holds
 * its descriptor, and no longer: nothing is left behind by a process that dies. */
typedef struct mx_segment {
  uint32_t size;
  int32_t fd;      /* of this process and the manager's: duplicate it to keep it */
  uint64_t bytes;
  uint64_t inode;  /* equal for all descriptors of one segment */
  uint64_t offset; /* of the address that was asked for */
} mx_segment;

/* What a storage manager for cpu_shared offers besides its own table. */
typedef struct mx_shared_api {
  mx_table_head head;
  void* self;

  /* The segment in which an address lies.  Fails with MX_ERROR_VALUE for other memory. */
  int32_t (*segment)(void* self, const void* data, mx_segment* segment, mx_error* error);
  /* Maps a segment of another process through a descriptor of it, which stays the caller's.  The
   * block is freed like any other of the manager.  Refused: what is no segment, or a smaller one. */
  int32_t (*attach)(void* self, int32_t fd, uint64_t bytes, const char* tag, mx_block* block,
                    mx_error* error);
} mx_shared_api;

#define MX_RESOURCE_CAPSULE "mx.resource.v1"
#define MX_RESOURCE_MAJOR 1
#define MX_RESOURCE_MINOR 0

/* Random streams: Philox 4x32-10 (Salmon et al., SC'11), one key per (seed, context).  An operator
 * reserves `blocks` counters (each yields four 32-bit words) when it is pushed, so its numbers do
 * not depend on threads or timing. */
typedef struct mx_resource_api {
  mx_table_head head;
  void* self;
  /* Threads: any. */
  void (*reserve_random)(void* self, mx_context context, uint64_t blocks, uint64_t* key,
                         uint64_t* offset);
  /* Restarts the stream of one context. */
  void (*seed)(void* self, mx_context context, uint64_t seed);
  /* Restarts the streams of every context, each with a key derived from seed and context. */
  void (*seed_all)(void* self, uint64_t seed);
} mx_resource_api;

#ifdef __cplusplus
}
#endif
#endif /* MX_CORE_STORAGE_H_ */
