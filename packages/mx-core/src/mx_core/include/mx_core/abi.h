/* SPDX-License-Identifier: Apache-2.0
 *
 * The vocabulary every table between mx packages shares: table heads, errors,
 * failures, contexts, element types, tensors.  C99, no Python, no C++.
 *
 * Rules for every table in this directory
 *   - the first member is `mx_table_head`; a consumer compares it before it
 *     touches a slot (mx_core/python.hpp does so and explains a refusal);
 *   - slots are appended, never removed, reordered or retyped within a major;
 *   - of a table that a framework package provides a consumer needs at least the
 *     minor it was built against; of a table that any plug-in provides (device,
 *     kernel, plan) every older minor is accepted whose size is at least that of
 *     1.0 (MX_DEVICE_SIZE_1_0, ...), and MX_HAS tells of slots added since;
 *   - structs that may grow begin with their `size`, and every size from that of
 *     1.0 on is accepted; the others (mx_tensor, mx_context, mx_block, mx_param)
 *     travel in arrays and never change within a major;
 *   - every slot takes the table's `self` as its first argument;
 *   - a function that may block says "Blocks" and must be called without the GIL.
 */
#ifndef MX_CORE_ABI_H_
#define MX_CORE_ABI_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- tables ------------------------------------------------------------ */

typedef struct mx_table_head {
  uint32_t size;  /* sizeof the provider's table, bytes */
  uint16_t major; /* equal on both sides, or the table is refused */
  uint16_t minor; /* grows with every appended slot */
} mx_table_head;

/* Bytes of a struct up to and including a member: its size when that was the last one. */
#define MX_SIZE_UP_TO(type, member) (offsetof(type, member) + sizeof(((type*)0)->member))
/* Whether a struct of `size` bytes has the member. */
#define MX_HAS(size, type, member) ((size) >= MX_SIZE_UP_TO(type, member))

/* ---- synchronous errors ------------------------------------------------- */

typedef enum mx_status {
  MX_OK = 0,
  MX_ERROR = 1,             /* MXNetError */
  MX_ERROR_SHAPE = 2,       /* ShapeError (a ValueError) */
  MX_ERROR_DTYPE = 3,       /* DTypeError (a TypeError) */
  MX_ERROR_VALUE = 4,       /* ArgumentError (a ValueError) */
  MX_ERROR_INDEX = 5,       /* IndexOutOfBoundsError (an IndexError) */
  MX_ERROR_MEMORY = 6,      /* OutOfMemoryError (a MemoryError) */
  MX_ERROR_UNSUPPORTED = 7, /* NoKernelError (a NotImplementedError) */
  MX_ERROR_ABI = 8,         /* AbiError (an ImportError) */
  MX_ERROR_SHUTDOWN = 9,    /* EngineShutdownError */
  MX_ERROR_PYTHON = 10,     /* a Python exception travels in a failure's payload */
  MX_TIMEOUT = 100          /* not an error: a bounded wait ran out */
} mx_status;

/* Owned by the caller, who sets nothing; the callee writes code and a
 * NUL-terminated UTF-8 message (truncated if need be) when it returns non-zero. */
typedef struct mx_error {
  int32_t code;
  char message[508];
} mx_error;

/* ---- asynchronous failures ---------------------------------------------- */

#define MX_PAYLOAD_NONE 0
#define MX_PAYLOAD_PYTHON 1 /* payload is a PyObject* exception, owned by the failure */
#define MX_PAYLOAD_SHARED 2 /* no payload, and nobody may write the failure: memory was exhausted, and
                             * everybody who failed so since has this one */

/* Why an operation failed.  Reference-counted and shared by every variable it
 * poisons; created by whoever fails, carried by the engine, read by who waits.
 * Threads: retain and release may be called on any thread, without the GIL. */
typedef struct mx_failure {
  mx_table_head head;
  int32_t code;           /* mx_status */
  int32_t payload_kind;   /* MX_PAYLOAD_* */
  void* payload;          /* Owns: the failure */
  const char* message;    /* UTF-8; Owns: the failure */
  char operator_name[96]; /* which operation failed first; "" until the engine fills it, before anybody
                           * else sees the failure */
  char origin[256];       /* file:line of the push; "" when unknown */
  void (*retain)(struct mx_failure* self);
  void (*release)(struct mx_failure* self);
} mx_failure;

#define MX_FAILURE_MAJOR 1
#define MX_FAILURE_MINOR 0

/* ---- contexts (devices) -------------------------------------------------- */

typedef enum mx_device_type {
  MX_CPU = 1,
  MX_GPU = 2,
  MX_CPU_PINNED = 3,
  MX_CPU_SHARED = 5,
  MX_FIRST_PLUGIN_DEVICE = 64 /* device types of third parties start here */
} mx_device_type;

typedef struct mx_context {
  int32_t type; /* mx_device_type */
  int32_t id;
} mx_context;

/* 1 where the host reads and writes the memory of the context: plain, pinned and shared. */
static inline int32_t mx_on_host(mx_context context) {
  return context.type == MX_CPU || context.type == MX_CPU_PINNED || context.type == MX_CPU_SHARED;
}

/* ---- element types (MXNet's type flags) ----------------------------------- */

typedef enum mx_dtype {
  MX_DTYPE_UNKNOWN = -1,
  MX_FLOAT32 = 0,
  MX_FLOAT64 = 1,
  MX_FLOAT16 = 2,
  MX_UINT8 = 3,
  MX_INT32 = 4,
  MX_INT8 = 5,
  MX_INT64 = 6,
  MX_BOOL = 7,
  MX_INT16 = 8,
  MX_UINT16 = 9,
  MX_UINT32 = 10,
  MX_UINT64 = 11,
  MX_BFLOAT16 = 12,
  MX_COMPLEX64 = 13,
  MX_COMPLEX128 = 14
} mx_dtype;

/* ---- tensors --------------------------------------------------------------- */

#define MX_MAX_NDIM 32

/* A typed view of memory, row-major and contiguous unless `layout` is non-zero.
 * Owns: nothing; data and shape outlive the call they are passed to. */
typedef struct mx_tensor {
  void* data; /* may be NULL when bytes == 0 */
  const int64_t* shape;
  size_t bytes; /* product(shape) * element size, or the opaque layout's size */
  mx_context context;
  int32_t dtype; /* mx_dtype */
  int32_t ndim;
  uint64_t layout; /* 0: plain.  Otherwise an opaque layout id that one provider understands */
} mx_tensor;

/* What a kernel is asked to do with an output. */
typedef enum mx_req {
  MX_REQ_NULL = 0,    /* leave it alone */
  MX_REQ_WRITE = 1,   /* overwrite */
  MX_REQ_INPLACE = 2, /* overwrite; it may share memory with the declared input */
  MX_REQ_ADD = 3      /* add to what is there */
} mx_req;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* MX_CORE_ABI_H_ */
