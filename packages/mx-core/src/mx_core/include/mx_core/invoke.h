/* SPDX-License-Identifier: Apache-2.0
 *
 * Interface "invoke": arrays and prepared operator calls, provided by the
 * imperative package and used by executors, so that there is one path by which
 * operators run.  Capsule name: MX_INVOKE_CAPSULE.
 */
#ifndef MX_CORE_INVOKE_H_
#define MX_CORE_INVOKE_H_

#include "mx_core/abi.h"
#include "mx_core/engine.h"
#include "mx_core/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MX_INVOKE_CAPSULE "mx.invoke.v1"
#define MX_INVOKE_MAJOR 1
#define MX_INVOKE_MINOR 0

typedef struct mx_array mx_array; /* an NDArray: a view of a chunk, with the chunk's variable */
typedef struct mx_call mx_call;   /* a prepared operator call: one signature, one kernel plan */

typedef struct mx_invoke_api {
  mx_table_head head;
  void* self;

  /* ---- arrays: reference counted, any thread, without the GIL ---- */
  /* Lazy memory: the chunk allocates when first written. *array receives a reference. */
  int32_t (*array_new)(void* self, mx_context context, int32_t dtype, int32_t ndim,
                       const int64_t* shape, mx_array** array, mx_error* error);
  /* A view of the same chunk at byte `offset` from the array's start. */
  int32_t (*array_view)(void* self, mx_array* base, size_t offset, int32_t dtype, int32_t ndim,
                        const int64_t* shape, mx_array** array, mx_error* error);
  void (*array_retain)(void* self, mx_array* array);
  void (*array_release)(void* self, mx_array* array);
  mx_variable* (*array_variable)(void* self, mx_array* array);
  /* Fills a descriptor; data is NULL while the chunk has no memory.  `allocate` gives it some: 1 cleared memory, 2 memory
     that may hold anything where the array is all of its chunk, for one who writes all of it first. */
  int32_t (*array_tensor)(void* self, mx_array* array, int32_t allocate, mx_tensor* tensor,
                          mx_error* error);

  /* ---- calls ---- */
  /* A call is made in Python (mx_ndarray.prepare) and crosses as capsule "mx.call.v1". */
  void (*call_retain)(void* self, mx_call* call);
  void (*call_release)(void* self, mx_call* call);
  /* 1 when the body needs the GIL (a kernel written in Python). */
  int32_t (*call_is_python)(void* self, const mx_call* call);
  const char* (*call_name)(void* self, const mx_call* call);

  /* Pushes the call to the engine: reads its inputs, writes outputs and auxiliary states.
   * `scalars` are copied.  Never blocks (except under a naive engine). */
  int32_t (*push)(void* self, mx_call* call, mx_array* const* inputs, uint32_t n_inputs,
                  mx_array* const* outputs, const uint8_t* req, uint32_t n_outputs,
                  const double* scalars, uint32_t n_scalars, int32_t is_train, int32_t priority,
                  mx_error* error);

  /* Runs the call now, on this thread, inside an engine operation that already owns the
   * variables of all tensors.  Allocates and frees scratch, takes the GIL if the call is Python.
   * random: key and offset reserved when the enclosing operation was pushed. NULL on success. */
  mx_failure* (*run)(void* self, mx_call* call, const mx_run_context* run,
                     const mx_tensor* inputs, uint32_t n_inputs, const mx_tensor* outputs,
                     const uint8_t* req, uint32_t n_outputs, const double* scalars,
                     uint32_t n_scalars, int32_t is_train, uint64_t random_key,
                     uint64_t random_offset);
  /* Philox counters one run of the call consumes. */
  uint64_t (*call_random_blocks)(void* self, const mx_call* call);
} mx_invoke_api;

#ifdef __cplusplus
}
#endif
#endif /* MX_CORE_INVOKE_H_ */
