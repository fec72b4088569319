// SPDX-License-Identifier: Apache-2.0
#include "call.hpp"

#include <cxxabi.h>

#include <cstdio>

#include <algorithm>
#include <cstddef>

#include "small_vector.hpp"
#include "threads.hpp"
#include "workspace.hpp"

namespace mx::nd {
namespace {

int32_t allocate_output(const mx_kernel_context* self, uint32_t i, int32_t ndim,
                        const int64_t* shape, mx_tensor* output, mx_error* error) {
  return guarded(error, [&] {
    auto* dynamic = static_cast<DynamicOutputs*>(self->host);
    if (dynamic == nullptr) throw Error(MX_ERROR, "this operator's output shapes are fixed");
    dynamic->allocate(i, Shape(ndim, shape), output);
  });
}

// How many threads the kernel may use: what it asks for, if whoever runs it leaves it so many.
uint32_t threads_of(const Call& call, const mx_run_context& run) noexcept {
  const uint32_t wanted = (call.push_flags & MX_PUSH_PARALLEL) != 0 ? parallel_threads() : 1;
  constexpr size_t kNeeded = offsetof(mx_run_context, threads) + sizeof run.threads;
  return run.size >= kNeeded && run.threads != 0 ? std::min(wanted, run.threads) : wanted;
}

// Runs a plan of whoever made it.  A plan must not throw; one that does names its plug-in.
int32_t run_guarded(const Call& call, const mx_plan& plan, const mx_kernel_context& context,
                    const Execution& execution, mx_error* error) {
  try {
    const int32_t status = plan.run(&plan, &context, execution.inputs, execution.n_inputs, execution.outputs,
                      execution.req, execution.n_outputs, error);
    if (status == MX_OK || error->message[0] != '\0') return status;
    std::snprintf(error->message, sizeof error->message, "[%s] %s failed with code %d and no message",
                  call.name, call.kernel.c_str(), status);
    return status;
  } catch (abi::__forced_unwind&) {
    throw;  // the thread is being ended; swallowing that would end the process
  } catch (const std::bad_alloc&) {
    return set_error(error, MX_ERROR_MEMORY, "out of host memory");
  } catch (const std::exception& exception) {
    std::snprintf(error->message, sizeof error->message, "[%s] %s threw a C++ exception: %s", call.name,
                  call.kernel.c_str(), exception.what());
  } catch (...) {
    std::snprintf(error->message, sizeof error->message, "[%s] %s threw a C++ exception", call.name,
                  call.kernel.c_str());
  }
  return error->code = MX_ERROR;
}

}  // namespace

mx_failure* execute(const Call& call, const mx_run_context& run, Execution execution,
                    const double* scalars, uint32_t n_scalars, bool is_train, uint64_t random_key,
                    uint64_t random_offset, DynamicOutputs* dynamic) noexcept {
  mx_kernel_context context{};
  context.size = sizeof context;
  context.is_train = is_train ? 1 : 0;
  context.context = run.context;
  context.stream = run.stream;
  context.scalars = scalars;
  context.n_scalars = n_scalars;
  context.threads = threads_of(call, run);
  context.random_key = random_key;
  context.random_offset = random_offset;
  context.alloc_output = &allocate_output;
  context.host = dynamic;
  execution.context = &context;
  if (call.foreign) return call.foreign->run(call, execution);
  const mx_plan* plan = call.plan;
  mx_error error{};
  const auto invoke = [&](void* const* scratch) {
    context.scratch = scratch;
    return run_guarded(call, *plan, context, execution, &error);
  };
  int32_t status = MX_OK;
  const size_t staging = mx_plan_staging(plan, execution.req, execution.n_outputs);
  if (plan->n_scratch == 0 && staging == 0) {
    status = invoke(nullptr);
  } else {
    status = guarded(&error, [&] {
      Workspace workspace(call.context, run.stream, plan->n_scratch + 1);
      SmallVector<void*, 4> scratch(plan->n_scratch);
      for (uint32_t i = 0; i < plan->n_scratch; ++i) {
        scratch[i] = workspace.take(plan->scratch_bytes[i], "scratch");
      }
      if (staging != 0) context.staging = workspace.take(staging, "scratch");
      check(invoke(scratch.data()), error);
    });
  }
  return status == MX_OK ? nullptr : make_failure(status, error.message);
}

}  // namespace mx::nd

bool mx_call::is_mutated(uint32_t input) const noexcept {
  return std::find(mutated.begin(), mutated.end(), input) != mutated.end();
}

void mx_call::seal() {
  size_t bytes = 0;
  for (auto* specs : {&inputs, &outputs}) {
    for (mx::nd::TensorSpec& spec : *specs) {
      if (spec.layout == 0) spec.bytes = dynamic_output && specs == &outputs
                                             ? 0
                                             : mx::nd::byte_size(spec.shape, spec.dtype);
      bytes += spec.bytes;
    }
  }
  push_flags = 0;
  if (foreign) push_flags |= MX_PUSH_PYTHON;
  const uint32_t plan_flags = plan == nullptr ? 0 : plan->flags;
  if ((plan_flags & MX_PLAN_PARALLEL) != 0) push_flags |= MX_PUSH_PARALLEL;
  const bool on_host = mx_on_host(context);
  // Launching takes equally long whatever the sizes are.
  const bool small = bytes <= mx::nd::kInlineBytes || (!on_host && !dynamic_output);
  const bool waits = foreign && !on_host;  // for what it pushes
  if (small && !waits && (plan_flags & (MX_PLAN_HEAVY | MX_PLAN_PARALLEL)) == 0) push_flags |= MX_PUSH_INLINE;
  runs_inline = (push_flags & MX_PUSH_INLINE) != 0 && !dynamic_output && on_host;
}

mx_call::~mx_call() {
  if (plan != nullptr) plan->release(plan);
}
