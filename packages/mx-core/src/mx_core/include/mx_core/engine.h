/* SPDX-License-Identifier: Apache-2.0
 *
 * Interface "engine": asynchronous execution ordered by variables.
 *
 * The one rule: of two operations of which one mutates a common variable, the
 * one pushed first runs first; readers run together.  A push is atomic over all
 * its variables and safe from any thread.  Capsule name: MX_ENGINE_CAPSULE.
 */
#ifndef MX_CORE_ENGINE_H_
#define MX_CORE_ENGINE_H_

#include "mx_core/abi.h"
#include "mx_core/device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MX_ENGINE_CAPSULE "mx.engine.v1"
#define MX_ENGINE_MAJOR 1
#define MX_ENGINE_MINOR 4

typedef struct mx_variable mx_variable; /* opaque, engine-owned */
typedef struct mx_operator mx_operator; /* opaque: an operation that is pushed again and again */

typedef enum mx_fn_property {
  MX_FN_NORMAL = 0,
  MX_FN_COPY_FROM_DEVICE = 1,
  MX_FN_COPY_TO_DEVICE = 2,
  MX_FN_CPU_PRIORITIZED = 3,
  MX_FN_ASYNC = 4,
  MX_FN_DELETE_VARIABLE = 5,
  MX_FN_DEVICE_PRIORITIZED = 6,
  MX_FN_NO_SKIP = 7 /* runs even when an input is poisoned */
} mx_fn_property;

struct mx_engine_event;

/* Where an operation runs; valid during the call only. */
typedef struct mx_run_context {
  uint32_t size;
  uint32_t worker; /* 0 when inline on the pushing thread */
  mx_context context;
  void* stream; /* the device's stream handle, NULL on the host */
  /* NULL unless a profiler listens: tells it of a part of this operation, such as a node of a
   * program, that this thread has just run. */
  void (*report)(void* reporter, const struct mx_engine_event* part);
  void* reporter;
  /* 0, or the most threads that a kernel may use, because others run at the same time. */
  uint32_t threads;
} mx_run_context;

/* Returns NULL on success, else a failure whose reference passes to the engine.
 * Called without the GIL, without any engine lock. */
typedef mx_failure* (*mx_run_fn)(void* argument, const mx_run_context* run);

/* Completion of an asynchronous operation.  Exactly once, from any thread;
 * `failure` as for mx_run_fn. */
typedef struct mx_completion mx_completion;
typedef void (*mx_async_fn)(void* argument, const mx_run_context* run, mx_completion* done);

#define MX_PUSH_INLINE 1u     /* small: may run on the pushing thread when everything is ready */
#define MX_PUSH_PYTHON 2u     /* takes the GIL: Python lane; the runner takes it, not the engine */
#define MX_PUSH_PROFILE 4u    /* always recorded while a profiler sink is attached */
#define MX_PUSH_PARALLEL 8u   /* the body opens a parallel region of its own (oneDNN) */

/* Everything about one operation.  Owns: the caller; the engine copies it.
 * `destroy(argument)` is called exactly once, after the operation ran, was
 * skipped or was refused, on any thread, without the GIL. */
typedef struct mx_operation {
  uint32_t size;  /* sizeof(mx_operation); at least MX_OPERATION_SIZE_1_0, what is missing counts as 0 */
  uint32_t flags; /* MX_PUSH_* */
  mx_context context;
  int32_t property; /* mx_fn_property */
  int32_t priority; /* larger runs earlier */
  const char* name;   /* borrowed: must live as long as the process (use `intern`) */
  const char* origin; /* the same; file:line of the push, or NULL */
  mx_variable* const* reads;
  mx_variable* const* writes;
  uint32_t n_reads;
  uint32_t n_writes;
  mx_run_fn run;         /* exactly one of run and run_async is set */
  mx_async_fn run_async;
  void* argument;
  void (*destroy)(void* argument); /* may be NULL */
} mx_operation;

#define MX_OPERATION_SIZE_1_0 MX_SIZE_UP_TO(mx_operation, destroy)

/* One finished operation, or a part of one, for profiler sinks.  Times: nanoseconds of the monotonic
 * clock (CLOCK_MONOTONIC).  Strings live as long as the process. */
typedef struct mx_engine_event {
  uint32_t size;
  uint32_t thread; /* small stable number of the executing thread */
  const char* name;
  mx_context context;
  int64_t pushed, started, finished;
  int32_t property;
  int32_t failed;
  const char* label; /* of a part: which one (a node's name), while `name` is its operator's; else NULL */
} mx_engine_event;
typedef void (*mx_engine_sink)(void* sink, const mx_engine_event* event);

/* 0: end the wait. */
typedef int32_t (*mx_go_on_fn)(void* argument);
/* Reads a variable's memory; waits for nothing of the engine. */
typedef void (*mx_read_fn)(void* argument);

typedef struct mx_engine_api {
  mx_table_head head;
  void* self;

  /* Keeps the engine alive until release.  Threads: any. */
  void (*retain)(void* self);
  void (*release)(void* self);

  /* Returns a copy of `text` that lives as long as the process; equal texts share one. */
  const char* (*intern)(void* self, const char* text);

  /* NULL only when memory is exhausted. */
  mx_variable* (*new_variable)(void* self);
  /* Runs deleter(argument) after all operations pushed before on the variable, then frees the
   * variable.  The variable must not be used afterwards.  Never blocks. */
  void (*delete_variable)(void* self, mx_variable* variable, mx_context context,
                          void (*deleter)(void* argument), void* argument);
  /* Number of completed writes. */
  uint64_t (*variable_version)(void* self, mx_variable* variable);

  /* Refused (non-zero, error set, destroy called): a size below 1.0's, a variable listed twice, both
   * read and mutated, no body, engine stopped.  A failure of an operation that ran inline is stored,
   * not returned, except by a naive engine, which returns it through `failure` (may be NULL). */
  int32_t (*push)(void* self, const mx_operation* operation, mx_failure** failure, mx_error* error);
  /* Ends an asynchronous operation; failure NULL on success. */
  void (*complete)(void* self, mx_completion* done, mx_failure* failure);

  mx_operator* (*new_operator)(void* self, const mx_operation* prototype, mx_error* error);
  int32_t (*push_operator)(void* self, mx_operator* op, mx_context context, int32_t priority,
                           mx_failure** failure, mx_error* error);
  /* Freed after its last push has finished. */
  void (*delete_operator)(void* self, mx_operator* op);

  /* Blocks until every write pushed before has finished (with `for_write`, every read too), at
   * most timeout_ns (< 0: without limit).  Returns MX_OK, MX_TIMEOUT or an error.  On MX_OK
   * *failure receives the variable's failure (a reference, to be released) or NULL, and that
   * failure is cleared on every variable that shares it. */
  int32_t (*wait_for_variable)(void* self, mx_variable* variable, int32_t for_write,
                               int64_t timeout_ns, mx_failure** failure, mx_error* error);
  /* Blocks until nothing is pending; *failure as above, the first of all; clears all. */
  int32_t (*wait_for_all)(void* self, int64_t timeout_ns, mx_failure** failure, mx_error* error);
  /* Non-blocking: the failure recorded for a variable, also after it was delivered (a result that
   * never came into being), or NULL.  The reference must be released. */
  mx_failure* (*variable_failure)(void* self, mx_variable* variable);
  /* Non-blocking: 1 when nothing pushed before still has to write (for_write: or read) it. */
  int32_t (*variable_ready)(void* self, mx_variable* variable, int32_t for_write);

  /* Operations not yet finished. */
  uint64_t (*pending)(void* self);
  /* Drains, then joins the workers; the next push starts them again unless shut down. Blocks. */
  void (*stop)(void* self);
  /* The process is about to end: no new work, workers end without touching Python. */
  void (*notify_shutdown)(void* self);
  /* Compute threads per CPU device; set returns the value in force. */
  int32_t (*set_workers)(void* self, int32_t n);
  int32_t (*workers)(void* self);
  /* Starts (n > 1) or ends (n <= 1) a bulk scope of the calling thread; returns the previous n. */
  int32_t (*set_bulk_size)(void* self, int32_t n);
  /* Attach (or with NULL detach) the profiler's sink; called on executing threads. */
  void (*set_sink)(void* self, mx_engine_sink sink, void* argument);
  /* 1: runs everything at the push on the pushing thread. */
  int32_t (*is_naive)(void* self);

  /* Teaches the engine an accelerator: operations whose context has the device's type
   * find a stream in mx_run_context (lane 1 for copies to, 2 for copies from the device, else 0) and
   * complete in two steps: *launched* when `run` has returned, *done* when the token that the engine
   * records after it is reached.  An operation on the same stream needs its predecessors launched; on
   * another stream it waits through stream_wait; on the host, and for waits, deletions and a push's
   * `destroy`, they must be done.  A token whose wait fails poisons what the operation wrote.
   * The table must live as long as the engine.  Refused: host types, another table for a known type.
   * A push to a device type that was never attached is refused. */
  int32_t (*attach_device)(void* self, const mx_device_api* device, mx_error* error);

  /* Since 1.1.  As wait_for_variable without a limit, but go_on(argument) is asked every interval_ns, on
   * the waiting thread; 0 ends the wait with MX_TIMEOUT.  Asking costs no place in the variable's queue:
   * what others push meanwhile is not waited for.  Ask MX_HAS before it is used. */
  int32_t (*wait_for_variable_while)(void* self, mx_variable* variable, int32_t for_write,
                                     int64_t interval_ns, mx_go_on_fn go_on, void* argument,
                                     mx_failure** failure, mx_error* error);

  /* Since 1.2.  Waits like wait_for_variable_while for a read, then calls read(reading) on the waiting thread,
   * while nothing writes the variable: the values are those of the writes that were pushed before this call.
   * go_on may push and wait for anything: a grant that comes while it runs is not kept, and asked for again after it.
   * With *failure set, or another status than MX_OK, `read` was not called.  Without go_on (NULL) it never
   * blocks for the variable, but returns MX_TIMEOUT. */
  int32_t (*read_variable_while)(void* self, mx_variable* variable, mx_read_fn read, void* reading,
                                 int64_t interval_ns, mx_go_on_fn go_on, void* argument,
                                 mx_failure** failure, mx_error* error);

  /* Since 1.3.  While it is on, operations on lane 0 of an accelerator are launched in the order in which they are
   * pushed, also where nothing that they use orders them; a failure is passed on by what they use alone.  Asynchronous
   * operations, those of Python, and what is pushed inside an operation are not.  Since 1.4: with `on` = 2 the
   * variables of all of these are noted for join_noted, in the place of former ones.  Threads: any.  Never blocks. */
  int32_t (*keep_order)(void* self, mx_context context, int32_t on, mx_error* error);

  /* Since 1.4.  From now on and for good the variables are parts of one, `joint`: whatever uses one of them is ordered
   * with what uses any other, and listing several in one operation costs as much as listing one.  An operation may list
   * them as before, also one among its reads and another among its writes.  They share their version, a new one for
   * each, and a failure: until it is delivered, or, if anything was skipped for it, until one of them is written.
   * `joint` may be listed in their place; it is not to be deleted: it ends with the last of them.  Variables may be
   * joined again, with others, and `joint` with them.  MX_TIMEOUT, with nothing done, while one of them is in use, or
   * has failed.  Threads: any.  Never blocks. */
  int32_t (*join_variables)(void* self, mx_variable* const* variables, uint32_t n, mx_variable** joint,
                            mx_error* error);
  /* Since 1.4.  As join_variables, of the variables and of those that were noted in the context and still exist, but
   * for those that are to stay apart, which are in the order of their addresses. */
  int32_t (*join_noted)(void* self, mx_context context, mx_variable* const* variables, uint32_t n,
                        mx_variable* const* apart, uint32_t n_apart, mx_variable** joint, mx_error* error);
} mx_engine_api;

#define MX_ENGINE_API_SIZE_1_0 MX_SIZE_UP_TO(mx_engine_api, attach_device)

#ifdef __cplusplus
}
#endif
#endif /* MX_CORE_ENGINE_H_ */
