// SPDX-License-Identifier: Apache-2.0
//
// Prepared calls: where they may run, what their kernels are given, and how failures are told.
#include "kernels.hpp"

#include <stdexcept>

using namespace kernels;

namespace {

constexpr mx_context kHost{MX_CPU, 0}, kDevice{MX_FIRST_PLUGIN_DEVICE, 0};

// A call of one output with so many bytes, whose kernel is never run.
Ref<Call> sealed(size_t bytes, uint32_t plan_flags, mx_context context = kHost, bool dynamic = false) {
  Ref<Call> made = kernels::call(count, 0, static_cast<int64_t>(bytes / sizeof(float)));
  made->plan->flags = plan_flags;
  made->context = context;
  made->dynamic_output = dynamic;
  made->seal();
  return made;
}

void small_operations_run_on_the_pushing_thread() {
  const auto flags = [](size_t bytes, uint32_t plan_flags, mx_context context = kHost, bool dynamic = false) {
    return sealed(bytes, plan_flags, context, dynamic)->push_flags;
  };
  constexpr size_t kMost = mx::nd::kInlineBytes;
  CHECK(flags(kMost, 0) == MX_PUSH_INLINE && flags(kMost + 4, 0) == 0);
  CHECK(flags(4, MX_PLAN_HEAVY) == 0 && flags(4, MX_PLAN_PARALLEL) == MX_PUSH_PARALLEL);
  CHECK(flags(kMost + 4, 0, kDevice) == MX_PUSH_INLINE);  // a launch takes equally long for any size
  CHECK(flags(4, MX_PLAN_HEAVY, kDevice) == 0);
  CHECK(flags(4, 0, kDevice, true) == MX_PUSH_INLINE && flags(kMost + 4, 0, kHost, true) == MX_PUSH_INLINE);
  Ref<Call> large_input = kernels::call(count, 1, static_cast<int64_t>(kMost));
  large_input->dynamic_output = true;
  for (const mx_context context : {kHost, kDevice}) {
    large_input->context = context;
    large_input->seal();
    CHECK(large_input->push_flags == 0);
  }
  // with the interpreter's lock held: not what may wait, nor for an accelerator
  CHECK(sealed(4, 0)->runs_inline && !sealed(kMost + 4, 0)->runs_inline);
  CHECK(!sealed(4, 0, kDevice)->runs_inline && !sealed(4, 0, kHost, true)->runs_inline);
  CHECK(!sealed(4, MX_PLAN_PARALLEL)->runs_inline);
}

void sizes_of_what_a_call_was_prepared_for() {
  Ref<Call> made = kernels::call(count, 2, 3);
  made->inputs[1].layout = 7;  // the plug-in's own, of a size it says
  made->inputs[1].bytes = 64;
  made->seal();
  CHECK(made->inputs[0].bytes == 12 && made->inputs[1].bytes == 64 && made->outputs[0].bytes == 12);
  made->dynamic_output = true;
  made->seal();
  CHECK(made->inputs[0].bytes == 12 && made->outputs[0].bytes == 0);
}

void which_inputs_are_read_and_written() {
  Ref<Call> made = kernels::call(count, 3, 1);
  CHECK(made->reads(0) && made->reads(2) && !made->is_mutated(0));
  made->shape_only = {false, true, false};
  made->mutated = {2, 0};
  CHECK(made->reads(0) && !made->reads(1) && made->reads(2));
  CHECK(made->is_mutated(0) && !made->is_mutated(1) && made->is_mutated(2));
}

struct Kernel final : mx::nd::ForeignKernel {
  mx_failure* run(const Call&, const mx::nd::Execution&) noexcept override { return nullptr; }
};

void kernels_in_python_say_so() {
  Ref<Call> made = kernels::call(count, 0, 1);
  made->foreign = std::make_unique<Kernel>();
  made->seal();
  CHECK(made->push_flags == (MX_PUSH_PYTHON | MX_PUSH_INLINE) && made->runs_inline);
}

// Code and message of the failure of a kernel.
std::pair<int32_t, std::string> failure_of(Run run, const size_t* scratch = nullptr) {
  Ref<Call> made = Ref<Call>::adopt(new Call);
  made->name = "test";
  made->kernel = "kernel 'broken'";
  made->plan = plan(run, 0, scratch);
  made->seal();
  mx_run_context context{};
  context.context = kHost;
  const mx::FailureRef failure(
      mx::nd::execute(*made, context, {}, nullptr, 0, false, 0, 0, nullptr));
  if (!failure) return {MX_OK, ""};
  return {failure.get()->code, failure.get()->message};
}

#define KERNEL(body)                                                                             \
  [](const mx_plan*, const mx_kernel_context* context, const mx_tensor*, uint32_t,               \
     const mx_tensor*, const uint8_t*, uint32_t, mx_error* error) -> int32_t {                   \
    (void)context;                                                                               \
    (void)error;                                                                                 \
    body                                                                                         \
  }

void failures_of_kernels(fakes::Loader& loader) {
  const size_t bytes = 64;
  for (const size_t* scratch : {static_cast<const size_t*>(nullptr), &bytes}) {
    const auto is = [&](Run run, int32_t code, const std::string& message) {
      const auto failure = failure_of(run, scratch);
      if (failure.second != message) std::fprintf(stderr, "%s\n", failure.second.c_str());
      CHECK(failure.first == code && failure.second == message);
    };
    is(KERNEL(return MX_OK;), MX_OK, "");
    is(KERNEL(return mx::set_error(error, MX_ERROR_INDEX, "index 7");), MX_ERROR_INDEX, "index 7");
    is(KERNEL(return MX_ERROR_VALUE;), MX_ERROR_VALUE,
       "[test] kernel 'broken' failed with code " + std::to_string(MX_ERROR_VALUE) + " and no message");
    is(KERNEL(mx::set_error(error, MX_ERROR, "no matter"); return MX_OK;), MX_OK, "");
    is(KERNEL(throw std::runtime_error("broke");), MX_ERROR,
       "[test] kernel 'broken' threw a C++ exception: broke");
    is(KERNEL(throw 7;), MX_ERROR, "[test] kernel 'broken' threw a C++ exception");
    is(KERNEL(throw std::bad_alloc();), MX_ERROR_MEMORY, "out of host memory");
    is(KERNEL(const int64_t one = 1; mx_tensor tensor{};
              return context->alloc_output(context, 0, 1, &one, &tensor, error);),
       MX_ERROR, "this operator's output shapes are fixed");
  }
  CHECK(loader.storage_.alive == 0);
  const size_t much = size_t{2} << 30;
  CHECK(failure_of(KERNEL(return MX_OK;), &much) == std::pair(int32_t{MX_ERROR_MEMORY}, std::string("too much")));
}

void what_a_kernel_is_given(fakes::Loader& loader) {
  static mx_kernel_context got;
  static int alive, in_kernel;
  static fakes::Storage* storage;
  storage = &loader.storage_;
  alive = loader.storage_.alive;
  static const size_t kScratch[] = {100, 0, 200};
  Ref<Call> made = Ref<Call>::adopt(new Call);
  made->plan = plan(KERNEL(got = *context; in_kernel = storage->alive;
                           std::memset(context->scratch[0], 1, 100); std::memset(context->scratch[2], 1, 200);
                           CHECK(context->scratch[1] == nullptr); return MX_OK;),
                    0, kScratch);
  made->plan->n_scratch = 3;
  made->seal();
  mx_run_context run{};
  run.context = {MX_CPU, 2};
  const double scalars[] = {1.5, 2.5};
  const auto execute = [&](bool is_train) {
    const uint8_t req = MX_REQ_WRITE;
    mx::nd::Execution execution;
    execution.req = &req;
    execution.n_outputs = 1;
    CHECK(mx::nd::execute(*made, run, execution, scalars, 2, is_train, 11, 22, nullptr) == nullptr);
    CHECK(loader.storage_.alive == alive);
  };
  execute(true);
  CHECK(got.size == sizeof got && got.is_train == 1 && got.context.id == 2 && got.stream == nullptr);
  CHECK(got.scalars == scalars && got.n_scalars == 2 && got.random_key == 11 && got.random_offset == 22);
  CHECK(got.staging == nullptr && in_kernel == alive + 2);
  made->plan->staging_bytes = [](const mx_plan*, const uint8_t* req, uint32_t n_outputs) {
    CHECK(n_outputs == 1 && req[0] == MX_REQ_WRITE);
    return size_t{50};
  };
  execute(false);
  CHECK(got.is_train == 0 && got.staging != nullptr && in_kernel == alive + 3);
  made->plan->n_scratch = 0;
  made->plan->run = KERNEL(got = *context; in_kernel = storage->alive; return MX_OK;);
  execute(false);
  CHECK(got.staging != nullptr && in_kernel == alive + 1);
  made->plan->head.size = MX_PLAN_SIZE_1_0;  // from before there was any
  execute(false);
  CHECK(got.staging == nullptr && in_kernel == alive);
}

}  // namespace

int main() {
  fakes::Loader loader;
  small_operations_run_on_the_pushing_thread();
  sizes_of_what_a_call_was_prepared_for();
  which_inputs_are_read_and_written();
  kernels_in_python_say_so();
  failures_of_kernels(loader);
  what_a_kernel_is_given(loader);
}
