// SPDX-License-Identifier: Apache-2.0
#include "kernel_table.hpp"

#include <cstring>

#include "mx_core/native_tests.hpp"

namespace {

using mx::core::Call;

int32_t run_nothing(const mx_plan*, const mx_kernel_context*, const mx_tensor*, uint32_t,
                    const mx_tensor*, const uint8_t*, uint32_t, mx_error*) {
  return MX_OK;
}

mx_plan make_plan() {
  mx_plan plan{};
  plan.head = {sizeof(mx_plan), MX_KERNEL_MAJOR, MX_KERNEL_MINOR};
  plan.run = run_nothing;
  plan.retain = [](mx_plan*) {};
  plan.release = [](mx_plan*) {};
  return plan;
}

mx_plan good_plan = make_plan();

// Checks the signature it is asked with; what it answers is the integer after `self`.
int32_t prepare(void* self, const mx_signature* s, mx_plan** plan, mx_error* error) {
  CHECK(s->size == sizeof(mx_signature) && s->is_train == 1 && s->context.type == MX_CPU);
  CHECK(s->n_inputs == 2 && s->n_outputs == 1 && s->n_params == 2);
  CHECK(s->inputs[0].ndim == 2 && s->inputs[0].shape[1] == 3 && s->inputs[0].bytes == 24);
  CHECK(s->inputs[1].ndim == 0 && s->inputs[1].bytes == 8 && s->inputs[1].dtype == MX_FLOAT64);
  CHECK(s->outputs[0].bytes == 0 && s->outputs[0].data == nullptr);
  CHECK(std::strcmp(s->params[0].name, "eps") == 0 && s->params[0].is_number == 1);
  CHECK(s->params[0].number == 1e-5);
  CHECK(std::strcmp(s->params[1].text, "(3, 3)") == 0 && s->params[1].is_number == 0);
  const int32_t answer = *static_cast<int32_t*>(self);
  if (answer == -1) return MX_OK;
  if (answer != MX_OK) return mx::set_error(error, static_cast<mx_status>(answer), "told so");
  *plan = &good_plan;
  return MX_OK;
}

Call example() {
  return {"op",
          {{"eps", "1e-05"}, {"kernel", "(3, 3)"}},
          {{{2, 3}, MX_FLOAT32}, {{}, MX_FLOAT64}},
          {{{0, 5}, MX_INT8}},
          {MX_CPU, 0},
          true};
}

void test_answers_of_prepare() {
  int32_t answer = MX_OK;
  const mx_kernel_api table{{sizeof(mx_kernel_api), 1, 0}, &answer, prepare};
  CHECK(mx::core::prepare(table, example()) == &good_plan);
  answer = MX_ERROR_UNSUPPORTED;
  CHECK(mx::core::prepare(table, example()) == nullptr);
  answer = MX_ERROR_VALUE;
  CHECK(test::error_of([&] { mx::core::prepare(table, example()); }, MX_ERROR_VALUE) == "told so");
  answer = -1;
  CHECK(test::has(test::error_of([&] { mx::core::prepare(table, example()); }, MX_ERROR_ABI), "no plan"));
}

void test_impossible_tensors_are_refused() {
  int32_t answer = MX_OK;
  const mx_kernel_api table{{sizeof(mx_kernel_api), 1, 0}, &answer, prepare};
  const auto refused = [&](mx_status code, std::vector<int64_t> shape, int32_t dtype) {
    Call call = example();
    call.inputs[0] = {std::move(shape), dtype};
    return test::error_of([&] { mx::core::prepare(table, call); }, code);
  };
  CHECK(test::has(refused(MX_ERROR_SHAPE, std::vector<int64_t>(33, 1), MX_FLOAT32), "33 axes"));
  CHECK(test::has(refused(MX_ERROR_SHAPE, {-1}, MX_FLOAT32), "-1"));
  CHECK(test::has(refused(MX_ERROR_SHAPE, {1ll << 40, 1ll << 40}, MX_FLOAT32), "overflows"));
  CHECK(test::has(refused(MX_ERROR_DTYPE, {1}, 15), "15"));
  CHECK(test::has(refused(MX_ERROR_DTYPE, {1}, -1), "-1"));
}

void test_plans_of_another_interface_are_refused() {
  mx_plan plan = make_plan();
  plan.head.major = 2;
  CHECK(test::has(test::error_of([&] { mx::core::check_plan(plan); }, MX_ERROR_ABI), "offers 2."));
  plan = make_plan();
  plan.head.size = 8;
  CHECK(test::has(test::error_of([&] { mx::core::check_plan(plan); }, MX_ERROR_ABI), "(8 bytes)"));
  plan = make_plan();
  plan.head.size += 64;
  plan.head.minor += 1;
  mx::core::check_plan(plan);
  plan = make_plan();
  plan.run = nullptr;
  test::error_of([&] { mx::core::check_plan(plan); }, MX_ERROR_ABI);
}

void test_numbers() {
  double number = 0;
  CHECK(mx::core::parse_number("-2.5e3", &number) && number == -2500);
  CHECK(mx::core::parse_number("0", &number) && number == 0);
  for (const char* text : {"", "True", "(1, 2)", "1 ", "2x", "None"}) {
    CHECK(!mx::core::parse_number(text, &number));
  }
}

}  // namespace

int main() {
  test_answers_of_prepare();
  test_impossible_tensors_are_refused();
  test_plans_of_another_interface_are_refused();
  test_numbers();
}
