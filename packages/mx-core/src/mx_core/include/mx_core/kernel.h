/* SPDX-License-Identifier: Apache-2.0
 *
 * Interface "kernel": how an operator is computed.
 *
 * `prepare` does all slow work once per signature and yields an immutable plan
 * that any number of threads may run at the same time.  A kernel package hands
 * the framework either a kernel table (capsule MX_KERNEL_CAPSULE) whose
 * `prepare` is C, or directly a plan (capsule MX_PLAN_CAPSULE) that its Python
 * `make` function built.
 */
#ifndef MX_CORE_KERNEL_H_
#define MX_CORE_KERNEL_H_

#include "mx_core/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MX_KERNEL_CAPSULE "mx.kernel.v1"
#define MX_PLAN_CAPSULE "mx.plan.v1"
#define MX_KERNEL_MAJOR 1
#define MX_KERNEL_MINOR 2

/* What one execution gets besides tensors.  Valid during `run` only. */
typedef struct mx_kernel_context {
  uint32_t size;
  int32_t is_train;
  mx_context context;
  void* stream;            /* device stream; NULL on the host */
  void* const* scratch;    /* plan->n_scratch pointers, 64-byte aligned, contents undefined */
  const double* scalars;   /* the declaration's run-time scalars, in order */
  uint32_t n_scalars;
  uint32_t threads;        /* how many threads the kernel may use for itself; at least 1 */
  uint64_t random_key;     /* Philox key and first counter, when plan->random_blocks > 0 */
  uint64_t random_offset;
  /* dynamic_output operators: sets the shape of output i and yields its memory.  Asked again, the
   * shape must be the same, and so is the memory. */
  int32_t (*alloc_output)(const struct mx_kernel_context* self, uint32_t i, int32_t ndim,
                          const int64_t* shape, mx_tensor* output, mx_error* error);
  void* host; /* the framework's own */
  /* Since 1.1: plan->staging_bytes() bytes, 64-byte aligned, contents undefined; NULL for 0. */
  void* staging;
} mx_kernel_context;

#define MX_PLAN_PARALLEL 1u /* opens parallel regions (oneDNN, own threads) */
#define MX_PLAN_HEAVY 2u    /* never worth running inline on the pushing thread */

/* A part of a plan's scratch memory that is used for one thing.  Travels in arrays: never changes within a major. */
typedef struct mx_scratch_section {
  uint32_t scratch; /* index of the memory in scratch_bytes */
  uint32_t reserved;
  size_t offset; /* bytes from the beginning of the memory */
  size_t bytes;
} mx_scratch_section;

typedef struct mx_plan {
  mx_table_head head; /* MX_KERNEL_MAJOR / MINOR */
  uint32_t flags;     /* MX_PLAN_* */
  uint32_t n_scratch;
  const size_t* scratch_bytes; /* n_scratch sizes; Owns: the plan */
  uint64_t random_blocks;      /* Philox counters one run consumes */
  /* Inputs come first in declaration order, auxiliary states last (they may be written).
   * Returns MX_OK or a code with `error` set.  Called without the GIL. Threads: any number. */
  int32_t (*run)(const struct mx_plan* self, const mx_kernel_context* context,
                 const mx_tensor* inputs, uint32_t n_inputs, const mx_tensor* outputs,
                 const uint8_t* req, uint32_t n_outputs, mx_error* error);
  /* Any thread, without the GIL. */
  void (*retain)(struct mx_plan* self);
  void (*release)(struct mx_plan* self);
  /* Since 1.1.  Bytes of scratch that a run with these requests needs besides scratch_bytes: staging
   * memory of outputs that cannot be written directly.  NULL: none.  Threads: any. */
  size_t (*staging_bytes)(const struct mx_plan* self, const uint8_t* req, uint32_t n_outputs);
  /* Since 1.2.  What the scratch memories consist of, ascending; a run writes nothing between the sections, which tests
   * verify.  n_sections is 0: each memory is one section.  Owns: the plan */
  const mx_scratch_section* sections;
  uint32_t n_sections;
  uint32_t reserved;
} mx_plan;

#define MX_PLAN_SIZE_1_0 MX_SIZE_UP_TO(mx_plan, release)

/* Bytes of staging memory of a plan of any minor. */
static inline size_t mx_plan_staging(const mx_plan* plan, const uint8_t* req, uint32_t n_outputs) {
  const int stages = MX_HAS(plan->head.size, mx_plan, staging_bytes) && plan->staging_bytes != NULL;
  return stages ? plan->staging_bytes(plan, req, n_outputs) : 0;
}

/* A parameter as text (MXNet's attribute form) and, where it is one number, as double. */
typedef struct mx_param {
  const char* name;
  const char* text;
  double number;
  int32_t is_number;
  int32_t reserved;
} mx_param;

typedef struct mx_signature {
  uint32_t size;
  int32_t is_train;
  mx_context context;
  const mx_param* params;
  const mx_tensor* inputs;  /* data is NULL */
  const mx_tensor* outputs; /* data is NULL */
  uint32_t n_params;
  uint32_t n_inputs;
  uint32_t n_outputs;
  uint32_t reserved;
} mx_signature;

/* Capsule MX_KERNEL_CAPSULE: for kernels written in C or C++ alone. */
typedef struct mx_kernel_api {
  mx_table_head head;
  void* self;
  /* *plan receives a reference.  MX_ERROR_UNSUPPORTED declines: the next candidate is asked. */
  int32_t (*prepare)(void* self, const mx_signature* signature, mx_plan** plan, mx_error* error);
} mx_kernel_api;

#define MX_KERNEL_SIZE_1_0 MX_SIZE_UP_TO(mx_kernel_api, prepare)

#ifdef __cplusplus
}
#endif
#endif /* MX_CORE_KERNEL_H_ */
