// SPDX-License-Identifier: Apache-2.0
//
// The "invoke" table: executors see arrays and calls through C.
#include "kernels.hpp"
#include "table.hpp"

using namespace kernels;

namespace {

using Values = std::vector<float>;

const mx_invoke_api* table() { return mx::nd::invoke_table(); }

void arrays_are_made_and_described() {
  CHECK(table()->head.major == MX_INVOKE_MAJOR && table()->head.minor == MX_INVOKE_MINOR);
  CHECK(table()->head.size == sizeof(mx_invoke_api));
  const int64_t dims[] = {2, 3}, half[] = {3};
  mx_array *whole = nullptr, *view = nullptr;
  mx_error error{};
  CHECK(table()->array_new(table()->self, {MX_CPU, 1}, MX_FLOAT64, 2, dims, &whole, &error) == MX_OK);
  CHECK(table()->array_view(table()->self, whole, 24, MX_FLOAT64, 1, half, &view, &error) == MX_OK);
  mx_tensor tensor{};
  CHECK(table()->array_tensor(table()->self, view, 0, &tensor, &error) == MX_OK && tensor.data == nullptr);
  CHECK(table()->array_tensor(table()->self, view, 1, &tensor, &error) == MX_OK);
  CHECK(static_cast<double*>(tensor.data)[2] == 0 && tensor.bytes == 24 && tensor.dtype == MX_FLOAT64);
  CHECK(tensor.ndim == 1 && tensor.shape[0] == 3 && tensor.context.id == 1 && tensor.layout == 0);
  const void* data = tensor.data;
  CHECK(table()->array_tensor(table()->self, whole, 0, &tensor, &error) == MX_OK);
  CHECK(static_cast<double*>(tensor.data) + 3 == data && tensor.ndim == 2 && tensor.shape[1] == 3);
  CHECK(table()->array_variable(table()->self, view) == table()->array_variable(table()->self, whole));
  table()->array_retain(table()->self, view);
  table()->array_release(table()->self, whole);
  table()->array_release(table()->self, view);
  static_cast<double*>(const_cast<void*>(data))[2] = 1;  // the second reference keeps it
  table()->array_release(table()->self, view);
}

// Memory that is recycled within the process: what is not cleared may hold what was there.
void only_what_is_overwritten_is_not_cleared() {
  const int64_t n = 1 << 18;
  mx_error error{};
  mx_tensor tensor{};
  const auto fresh = [&](bool viewed, int32_t allocate) {
    mx_array *whole = nullptr, *view = nullptr;
    CHECK(table()->array_new(table()->self, {MX_CPU, 0}, MX_FLOAT32, 1, &n, &whole, &error) == MX_OK);
    const int64_t half = n / 2;
    CHECK(table()->array_view(table()->self, whole, 0, MX_FLOAT32, 1, &half, &view, &error) == MX_OK);
    CHECK(table()->array_tensor(table()->self, viewed ? view : whole, allocate, &tensor, &error) == MX_OK);
    auto* values = static_cast<float*>(tensor.data);
    float last = values[n - 1];
    std::fill_n(values, n, 7.0F);
    table()->array_release(table()->self, view);
    table()->array_release(table()->self, whole);
    return last;
  };
  for (int i = 0; i < 3; ++i) {
    fresh(false, 2);
    CHECK(fresh(false, 1) == 0);
    CHECK(fresh(true, 2) == 0);
  }
}

void errors_are_reported() {
  const int64_t dims[] = {int64_t{1} << 62, int64_t{1} << 62};
  mx_array* made = nullptr;
  mx_error error{};
  CHECK(table()->array_new(table()->self, {MX_CPU, 0}, MX_FLOAT32, 2, dims, &made, &error) == MX_ERROR_SHAPE);
  CHECK(made == nullptr && test::has(error.message, "has more than 2^63 bytes"));
  Ref<Array> two = array({1, 2});
  const int64_t three = 3;
  CHECK(table()->array_view(table()->self, two.get(), 0, MX_FLOAT32, 1, &three, &made, &error) == MX_ERROR_SHAPE);
  CHECK(made == nullptr && test::has(error.message, "leaves its memory of 8 bytes"));
  Ref<Array> pending = Array::unshaped({MX_CPU, 0}, MX_FLOAT32);
  mx_tensor tensor{};
  CHECK(table()->array_tensor(table()->self, pending.get(), 0, &tensor, &error) == MX_ERROR_SHAPE);
  CHECK(test::has(error.message, "not known before the array is computed"));
  const int64_t huge = int64_t{1} << 40;
  CHECK(table()->array_new(table()->self, {MX_CPU, 0}, MX_FLOAT32, 1, &huge, &made, &error) == MX_OK);
  CHECK(table()->array_tensor(table()->self, made, 0, &tensor, &error) == MX_OK);
  CHECK(tensor.data == nullptr && tensor.shape[0] == huge);
  CHECK(table()->array_tensor(table()->self, made, 1, &tensor, &error) == MX_ERROR_MEMORY);
  table()->array_release(table()->self, made);
}

struct Twice final : mx::nd::ForeignKernel {
  mx_failure* run(const Call&, const mx::nd::Execution&) noexcept override { return nullptr; }
};

void calls_are_described() {
  Ref<Call> call = kernels::call(add, 2, 1);
  CHECK(table()->call_is_python(table()->self, call.get()) == 0);
  CHECK(std::string(table()->call_name(table()->self, call.get())) == "test");
  call->random_blocks = 9;
  CHECK(table()->call_random_blocks(table()->self, call.get()) == 9);
  call->foreign = std::make_unique<Twice>();
  CHECK(table()->call_is_python(table()->self, call.get()) == 1);
  table()->call_retain(table()->self, call.get());
  table()->call_release(table()->self, call.get());
}

void calls_are_pushed(fakes::Engine& engine) {
  Ref<Call> call = kernels::call(add, 2, 2);
  Ref<Array> a = array({1, 2}), b = array({3, 4}), out = array({10, 10});
  mx_array* in[] = {a.get(), b.get()};
  mx_array* to = out.get();
  uint8_t req = MX_REQ_ADD;
  mx_error error{};
  const auto push = [&](uint32_t n_inputs, const uint8_t* requests) {
    return table()->push(table()->self, call.get(), in, n_inputs, &to, requests, 1, nullptr, 0, 1, 3, &error);
  };
  CHECK(push(2, &req) == MX_OK);
  engine.drain();
  CHECK(values(*out) == (Values{14, 16}) && engine.operations.back().priority == 3);
  CHECK(push(2, nullptr) == MX_OK);
  engine.drain();
  CHECK(values(*out) == (Values{4, 6}));
  CHECK(push(1, &req) == MX_ERROR_VALUE);
  CHECK(std::string(error.message) == "[test] expected 2 inputs, 1 outputs, 0 scalars, got 1, 1, 0");
}

void calls_are_run_on_this_thread() {
  Ref<Call> call = kernels::call(
      [](const mx_plan*, const mx_kernel_context* context, const mx_tensor*, uint32_t, const mx_tensor* out,
         const uint8_t* req, uint32_t, mx_error*) -> int32_t {
        store(*out, 0, static_cast<float>(context->scalars[0]) + static_cast<float>(context->is_train), *req);
        return MX_OK;
      },
      0, 1);
  call->n_scalars = 1;
  mx_run_context context{};
  context.context = {MX_CPU, 0};
  float result = 0;
  const int64_t one = 1;
  const mx_tensor out{&result, &one, 4, {MX_CPU, 0}, MX_FLOAT32, 1, 0};
  const uint8_t req = MX_REQ_WRITE;
  const double scalar = 5;
  const auto run = [&](uint32_t n_scalars, int32_t is_train) {
    return mx::FailureRef(table()->run(table()->self, call.get(), &context, nullptr, 0, &out, &req, 1, &scalar,
                                       n_scalars, is_train, 0, 0));
  };
  CHECK(!run(1, 0) && result == 5);
  CHECK(!run(1, 2) && result == 6);
  const mx::FailureRef failure = run(0, 0);
  CHECK(failure && failure.get()->code == MX_ERROR_VALUE);
  CHECK(test::has(failure.get()->message, "wrong number of run-time scalars"));
}

}  // namespace

int main() {
  fakes::Loader loader;
  arrays_are_made_and_described();
  only_what_is_overwritten_is_not_cleared();
  errors_are_reported();
  calls_are_described();
  calls_are_pushed(loader.engine_);
  calls_are_run_on_this_thread();
  loader.engine_.drain();
  CHECK(loader.storage_.alive == 0);
}
