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
