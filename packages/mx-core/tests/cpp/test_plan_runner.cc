// SPDX-License-Identifier: Apache-2.0
#include "plan_runner.hpp"

#include <cstring>

#include "mx_core/failure.hpp"
#include "mx_core/native_tests.hpp"
#include "mx_core/plan.hpp"

namespace {

using mx::core::DynamicOutput;
using mx::core::RunOptions;
using Dynamic = mx::core::DynamicOutputs;

const size_t kScratch[] = {100, 0, 4096};

mx_plan make_plan(decltype(mx_plan::run) run) {
  mx_plan plan{};
  plan.head = {sizeof(mx_plan), MX_KERNEL_MAJOR, MX_KERNEL_MINOR};
  plan.n_scratch = 3;
  plan.scratch_bytes = kScratch;
  plan.run = run;
  plan.retain = [](mx_plan*) {};
  plan.release = [](mx_plan*) {};
  return plan;
}

// output = scalar * input, with everything the context promises checked.
int32_t scale(const mx_plan*, const mx_kernel_context* context, const mx_tensor* inputs, uint32_t n_inputs,
              const mx_tensor* outputs, const uint8_t* req, uint32_t n_outputs, mx_error*) {
  CHECK(context->size == sizeof(mx_kernel_context) && context->is_train == 1);
  CHECK(context->n_scalars == 1 && context->threads == 4 && context->stream == nullptr);
  CHECK(context->random_key == 7 && context->random_offset == 9);
  for (int i = 0; i < 3; ++i) {
    CHECK(context->scratch[i] != nullptr && reinterpret_cast<uintptr_t>(context->scratch[i]) % 64 == 0);
    for (size_t k = 0; k < kScratch[i]; ++k) CHECK(static_cast<uint8_t*>(context->scratch[i])[k] == 0xff);  // NaN
    std::memset(context->scratch[i], 1, kScratch[i]);
  }
  CHECK(n_inputs == 1 && n_outputs == 1 && req[0] == MX_REQ_ADD);
  const auto* x = static_cast<const float*>(inputs[0].data);
  auto* y = static_cast<float*>(outputs[0].data);
  for (int64_t i = 0; i < inputs[0].shape[0]; ++i) y[i] += static_cast<float>(context->scalars[0]) * x[i];
  return MX_OK;
}

void test_a_plan_gets_tensors_scratch_scalars_and_request() {
  const int64_t shape[] = {3};
  float x[] = {1, 2, 3}, y[] = {10, 10, 10};
  const mx_tensor in{x, shape, sizeof x, {MX_CPU, 0}, MX_FLOAT32, 1, 0};
  const mx_tensor out{y, shape, sizeof y, {MX_CPU, 0}, MX_FLOAT32, 1, 0};
  const mx_plan plan = make_plan(scale);
  Dynamic none(1);
  CHECK(mx::core::run_plan(plan, {{in}, {out}}, {MX_REQ_ADD}, none, RunOptions{true, {2.0}, 7, 9, 4}).empty());
  CHECK(y[0] == 12 && y[1] == 14 && y[2] == 16);
}

void test_errors_of_run_are_thrown() {
  const mx_plan plan = make_plan([](const mx_plan*, const mx_kernel_context*, const mx_tensor*, uint32_t,
                                    const mx_tensor*, const uint8_t*, uint32_t, mx_error* error) {
    return mx::set_error(error, MX_ERROR_INDEX, "index 5 of axis 0 with length 3");
  });
  const auto text = test::error_of([&] { mx::core::run_plan(plan, {}, {}, {}, {}); }, MX_ERROR_INDEX);
  CHECK(test::has(text, "length 3"));
}

// Asks for two rows of two; a second output has a shape already.
int32_t grow(const mx_plan*, const mx_kernel_context* context, const mx_tensor*, uint32_t, const mx_tensor*,
             const uint8_t*, uint32_t, mx_error* error) {
  const int64_t shape[] = {2, 2}, negative[] = {-1};
  mx_tensor output{};
  CHECK(context->alloc_output(context, 1, 1, shape, &output, error) == MX_ERROR_VALUE);
  CHECK(context->alloc_output(context, 9, 1, shape, &output, error) == MX_ERROR_VALUE);
  CHECK(context->alloc_output(context, 0, MX_MAX_NDIM + 1, shape, &output, error) == MX_ERROR_SHAPE);
  const std::vector<int64_t> ones(MX_MAX_NDIM, 1);
  mx_tensor other{};
  CHECK(context->alloc_output(context, 2, MX_MAX_NDIM, ones.data(), &other, error) == MX_OK);
  CHECK(context->alloc_output(context, 0, 1, negative, &output, error) == MX_ERROR_SHAPE);
  const int32_t status = context->alloc_output(context, 0, 2, shape, &output, error);
  if (status != MX_OK) return status;
  CHECK(context->alloc_output(context, 0, 2, shape, &other, error) == MX_OK && other.data == output.data);
  CHECK(context->alloc_output(context, 0, 1, shape, &other, error) == MX_ERROR_SHAPE);
  CHECK(test::has(error->message, "asked for before"));
  CHECK(output.bytes == 32 && output.dtype == MX_INT64 && output.shape[1] == 2);
  for (int i = 0; i < 4; ++i) static_cast<int64_t*>(output.data)[i] = i;
  return MX_OK;
}

void test_dynamic_outputs() {
  const mx_plan plan = make_plan(grow);
  Dynamic dynamic(3);
  for (const int i : {0, 2}) dynamic[i] = std::make_unique<DynamicOutput>();
  dynamic[0]->dtype = MX_INT64;
  const std::vector<uint8_t> req(3, MX_REQ_WRITE);
  CHECK(mx::core::run_plan(plan, {{}, std::vector<mx_tensor>(3)}, req, dynamic, {}).empty());
  CHECK((dynamic[0]->shape == std::vector<int64_t>{2, 2}));
  CHECK(reinterpret_cast<int64_t*>(dynamic[0]->memory->data())[3] == 3);
}

// Writes a byte at an address relative to one of its sections.
class Scribbler final : public mx::Plan {
 public:
  Scribbler(int section, ptrdiff_t at) : Plan("scribbler", {}), section_(section), at_(at) {
    sections_[0] = add_scratch(64);  // as long as its alignment: a gap follows all the same
    sections_[1] = add_scratch<float>(3);
  }

 private:
  void execute(const mx::Call& call) const override { call.scratch(sections_[section_])[at_] = 0; }
  const int section_;
  const ptrdiff_t at_;
  mx::Section sections_[2];
};

std::string damage(int section, ptrdiff_t at) {
  const mx::PlanPtr plan(new Scribbler(section, at));
  return mx::core::run_plan(*plan, {}, {}, {}, {});
}

void test_writes_outside_of_sections_are_told() {
  CHECK(damage(0, 0).empty() && damage(0, 63).empty() && damage(1, 0).empty() && damage(1, 11).empty());
  CHECK(damage(0, 64) == "section 0 of the scratch memory: it has 64 bytes and is written up to 1 byte behind its end");
  CHECK(damage(0, -1) == "section 0 of the scratch memory: it has 64 bytes and is written up to 1 byte before its beginning");
  CHECK(damage(1, -4) == "section 1 of the scratch memory: it has 12 bytes and is written up to 4 bytes before its beginning");
  CHECK(damage(1, 12) == "section 1 of the scratch memory: it has 12 bytes and is written up to 1 byte behind its end");
  CHECK(damage(1, 4000) == "section 1 of the scratch memory: it has 12 bytes and is written up to 3989 bytes behind its end");
}

void test_plans_without_sections_have_one_a_memory() {
  mx_plan plan = make_plan([](const mx_plan*, const mx_kernel_context* context, const mx_tensor*, uint32_t,
                              const mx_tensor*, const uint8_t*, uint32_t, mx_error*) -> int32_t {
    static_cast<char*>(context->scratch[2])[4096] = 0;
    return MX_OK;
  });
  for (const uint32_t size : {static_cast<uint32_t>(MX_PLAN_SIZE_1_0), static_cast<uint32_t>(sizeof(mx_plan))}) {
    plan.head.size = size;
    CHECK(test::has(mx::core::run_plan(plan, {}, {}, {}, {}), "section 2 of the scratch memory: it has 4096 bytes"));
  }
}

void test_sections_beyond_their_memory_are_refused() {
  mx_plan plan = make_plan(scale);
  const mx_scratch_section beyond[] = {{0, 0, 64, 37}}, of_no_memory[] = {{3, 0, 0, 1}};
  plan.n_sections = 1;
  for (const mx_scratch_section* sections : {beyond, of_no_memory, static_cast<const mx_scratch_section*>(nullptr)}) {
    plan.sections = sections;
    test::error_of([&] { mx::core::run_plan(plan, {}, {}, {}, {}); }, MX_ERROR_ABI);
  }
}

void test_impossible_scratch_is_out_of_memory() {
  bool refused = false;
  try {
    mx::core::allocate(SIZE_MAX - 3);
  } catch (const std::bad_alloc&) {
    refused = true;
  }
  CHECK(refused);
}

}  // namespace

int main() {
  test_a_plan_gets_tensors_scratch_scalars_and_request();
  test_errors_of_run_are_thrown();
  test_dynamic_outputs();
  test_writes_outside_of_sections_are_told();
  test_plans_without_sections_have_one_a_memory();
  test_sections_beyond_their_memory_are_refused();
  test_impossible_scratch_is_out_of_memory();
}
