// SPDX-License-Identifier: Apache-2.0
//
// What mx::Plan checks before it computes, and where outputs go.
#include "mx_core/plan.hpp"

#include <cstring>

#include "mx_core/native_tests.hpp"

using mx::Signature;
using mx::Spec;

namespace {

constexpr size_t kContext10 = offsetof(mx_kernel_context, staging);  // before staging memory

// output 0 = input / 2 by a kernel that only writes; output 1, where there is one, = input.
class Halve final : public mx::Plan {
 public:
  explicit Halve(Signature signature, bool* gone = nullptr) : Plan("halve", std::move(signature)), gone_(gone) {
    first_ = add_scratch<float>(3);
    second_ = add_scratch<double>(1);
  }
  ~Halve() override {
    if (gone_ != nullptr) *gone_ = true;
  }

 private:
  void execute(const mx::Call& call) const override {
    CHECK(reinterpret_cast<char*>(call.scratch<double>(second_)) - call.scratch(first_) == 64);
    const float* x = call.input<float>(0);
    for (size_t k = 0; k < signature_.outputs.size(); ++k) {
      if (!call.wanted(k) && !stages(k, call.req)) continue;
      auto* y = call.target<float>(k);
      for (int64_t i = 0; i < output(k).size(); ++i) y[i] = k == 0 ? x[i] / 2 : x[i];
    }
  }
  bool stages(size_t i, const uint8_t* req) const override { return req[i] == MX_REQ_ADD; }

  bool* gone_;
  mx::Section first_, second_;
};

// data (rows, n) minus the mean of each column.
class Centred final : public mx::Plan {
 public:
  explicit Centred(mx::Signature signature)
      : Plan("centred", std::move(signature)), means_(add_scratch<double>(input(0).shape[1])) {}

 private:
  void execute(const mx::Call& call) const override {
    if (!call.wanted(0)) return;
    const int64_t rows = input(0).shape[0], n = input(0).shape[1];
    const float* x = call.input<float>(0);
    float* y = call.target<float>(0);  // the output, or staging memory
    double* means = call.scratch<double>(means_);
    for (int64_t k = 0; k < n; ++k) means[k] = 0;  // what stood there is undefined
    for (int64_t i = 0; i < rows * n; ++i) means[i % n] += x[i] / static_cast<double>(rows);
    for (int64_t i = 0; i < rows * n; ++i) y[i] = static_cast<float>(x[i] - means[i % n]);
  }
  bool stages(size_t i, const uint8_t* req) const override { return req[i] == MX_REQ_ADD; }

  const mx::Section means_;
};

// Arguments of a run on three numbers.
struct Run {
  explicit Run(size_t n_outputs = 1, uint32_t n_scalars = 0) : outputs(n_outputs), requests(n_outputs, MX_REQ_WRITE) {
    Signature signature;
    signature.inputs.emplace_back(mx::Shape{3}, MX_FLOAT32);
    for (size_t i = 0; i < n_outputs; ++i) signature.outputs.emplace_back(mx::Shape{3}, MX_FLOAT32);
    signature.n_scalars = n_scalars;
    plan.reset(new Halve(std::move(signature)));
    for (size_t i = 0; i < n_outputs; ++i) outputs[i] = tensor(y[i]);
    context.size = sizeof context;
    context.threads = 1;
    context.scratch = &scratch;
    context.staging = memory;
  }
  mx_tensor tensor(float* data) const { return {data, shape, sizeof x, {MX_CPU, 0}, MX_FLOAT32, 1, 0}; }
  // The refusal, or nothing.
  std::string operator()(int32_t expected = MX_OK) {
    mx_error error{};
    requests.push_back(MX_REQ_ADD);  // whoever looks beyond the last output stages one that there is not
    const int32_t status = plan->run(plan.get(), &context, &input, n_inputs, outputs.data(), requests.data(),
                                     static_cast<uint32_t>(outputs.size()), &error);
    requests.pop_back();
    CHECK(status == expected);
    return status == MX_OK ? "" : error.message;
  }

  const int64_t shape[1] = {3};
  float x[3] = {2, 4, 6}, y[2][3] = {{10, 10, 10}, {10, 10, 10}};
  alignas(64) char memory[128], of_scratch[128];
  void* scratch = of_scratch;
  mx_tensor input = tensor(x);
  uint32_t n_inputs = 1;
  std::vector<mx_tensor> outputs;
  std::vector<uint8_t> requests;
  mx_kernel_context context{};
  mx::PlanPtr plan;
};

void requests_are_kept() {
  Run write;
  CHECK(write().empty() && write.y[0][0] == 1 && write.y[0][2] == 3);
  Run add;
  add.requests = {MX_REQ_ADD};
  CHECK(add().empty() && add.y[0][0] == 11 && add.y[0][2] == 13);
  Run none;
  none.requests = {MX_REQ_NULL};
  CHECK(none().empty() && none.y[0][0] == 10);
  Run wrong;
  wrong.requests = {4};
  CHECK(test::has(wrong(MX_ERROR_VALUE), "[halve] request: expected 0 to 3, got 4"));
}

void staged_outputs_lie_behind_each_other() {
  Run both(2);
  both.requests = {MX_REQ_ADD, MX_REQ_ADD};
  CHECK(both.plan->staging_bytes(both.plan.get(), both.requests.data(), 2) == 128);
  CHECK(both.plan->staging_bytes(both.plan.get(), both.requests.data(), 1) == 0);  // of another plan
  CHECK(both().empty() && both.y[0][1] == 12 && both.y[1][1] == 14);
  Run second(2);
  second.requests = {MX_REQ_WRITE, MX_REQ_ADD};
  CHECK(second.plan->staging_bytes(second.plan.get(), second.requests.data(), 2) == 64);
  CHECK(second().empty() && second.y[0][1] == 2 && second.y[1][1] == 14);
}

void kernels_that_overwrite_are_added() {
  Signature signature;
  signature.inputs.emplace_back(mx::Shape{2, 2}, MX_FLOAT32);
  signature.outputs.emplace_back(mx::Shape{2, 2}, MX_FLOAT32);
  const mx::PlanPtr plan(new Centred(std::move(signature)));
  CHECK(plan->n_scratch == 1 && plan->scratch_bytes[0] == 64 && plan->n_sections == 1 && plan->sections[0].bytes == 16);
  const int64_t shape[] = {2, 2};
  float x[] = {1, 2, 3, 6}, y[] = {10, 10, 10, 10};
  const mx_tensor in{x, shape, sizeof x, {MX_CPU, 0}, MX_FLOAT32, 2, 0}, out{y, shape, sizeof y, {MX_CPU, 0}, MX_FLOAT32, 2, 0};
  alignas(64) char scratch[64], staging[64];
  void* memories[] = {scratch};
  mx_kernel_context context{};
  context.size = sizeof context;
  context.threads = 1;
  context.scratch = memories;
  context.staging = staging;
  const uint8_t add = MX_REQ_ADD, write = MX_REQ_WRITE;
  mx_error error{};
  CHECK(plan->run(plan.get(), &context, &in, 1, &out, &add, 1, &error) == MX_OK);
  CHECK(y[0] == 9 && y[1] == 8 && y[2] == 11 && y[3] == 12);
  CHECK(plan->run(plan.get(), &context, &in, 1, &out, &write, 1, &error) == MX_OK);
  CHECK(y[0] == -1 && y[1] == -2 && y[2] == 1 && y[3] == 2);
}

void staging_memory_must_be_given_where_it_is_needed() {
  Run without;
  without.context.staging = nullptr;
  CHECK(without().empty());  // nothing is staged
  without.requests = {MX_REQ_ADD};
  CHECK(test::has(without(MX_ERROR_ABI), "no staging memory"));
  Run old;  // of a framework that knows no staging memory: what stands there is not its
  old.context.size = kContext10;
  old.requests = {MX_REQ_ADD};
  CHECK(test::has(old(MX_ERROR_ABI), "no staging memory"));
  CHECK(old.y[0][0] == 10);
}

void other_arguments_are_refused() {
  Run counts;
  counts.n_inputs = 0;
  CHECK(test::has(counts(MX_ERROR_VALUE), "takes 1 inputs, 0 scalars and 1 outputs; got 0, 0 and 1"));
  Run more;
  more.outputs.push_back(more.tensor(more.y[1]));
  more.requests.push_back(MX_REQ_WRITE);
  CHECK(test::has(more(MX_ERROR_VALUE), "got 1, 0 and 2"));
  Run scalars(1, 2);
  scalars.context.n_scalars = 1;
  CHECK(test::has(scalars(MX_ERROR_VALUE), "got 1, 1 and 1"));
  scalars.context.n_scalars = 3;  // more than needed
  CHECK(scalars().empty());
  Run type;
  type.input.dtype = MX_INT32;
  CHECK(test::has(type(MX_ERROR_SHAPE), "input 0: the plan was made for type code 0 and 12 bytes, got type code 4"));
  Run bytes;
  bytes.outputs[0].bytes = 8;
  CHECK(test::has(bytes(MX_ERROR_SHAPE), "output 0") && bytes.y[0][0] == 10);
  Run layout;
  layout.input.layout = 1;
  CHECK(test::has(layout(MX_ERROR_SHAPE), "in a layout"));
}

void sizes_fit_or_are_refused() {
  CHECK(Spec({INT64_MAX}, MX_UINT8).bytes() == static_cast<size_t>(INT64_MAX));
  CHECK(Spec({INT64_MAX / 8}, MX_FLOAT64).size() == INT64_MAX / 8);
  CHECK(Spec({}, MX_FLOAT32).bytes() == 4 && Spec({3, 0, 5}, MX_FLOAT32).bytes() == 0);
  test::error_of([] { Spec({INT64_MAX / 8 + 1}, MX_FLOAT64); }, MX_ERROR_SHAPE);
  test::error_of([] { Spec({INT64_MAX, 2}, MX_UINT8); }, MX_ERROR_SHAPE);
  test::error_of([] { Spec({-1}, MX_FLOAT32); }, MX_ERROR_SHAPE);
  test::error_of([] { Spec({1}, 99); }, MX_ERROR_UNSUPPORTED);
}

void a_plan_lives_as_long_as_its_references() {
  bool gone = false;
  mx_plan* plan = new Halve({}, &gone);
  plan->retain(plan);
  plan->release(plan);
  CHECK(!gone);
  plan->release(plan);
  CHECK(gone);
}

template <class T>
T sum(int32_t dtype, T a, T b) {
  mx::add_elements(dtype, &a, &b, 1);
  return a;
}

class Huge final : public mx::Plan {
 public:
  explicit Huge(size_t bytes) : Plan("huge", {}) {
    add_scratch(SIZE_MAX / 4);
    add_scratch(bytes);
  }

 private:
  void execute(const mx::Call&) const override {}
};

void scratch_beyond_all_memory_is_out_of_memory() {
  for (const size_t bytes : {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX - 63}) {
    bool refused = false;
    try {
      mx::PlanPtr(new Huge(bytes));
    } catch (const std::bad_alloc&) {
      refused = true;
    }
    CHECK(refused);
  }
}

void elements_are_added_in_their_type() {
  CHECK(sum<double>(MX_FLOAT64, 1, 1e-15) == 1 + 1e-15 && sum<float>(MX_FLOAT32, 1, 2) == 3);
  CHECK(sum<int8_t>(MX_INT8, 127, 1) == -128 && sum<uint8_t>(MX_UINT8, 255, 2) == 1);
  CHECK(sum<int32_t>(MX_INT32, INT32_MAX, 1) == INT32_MIN && sum<int64_t>(MX_INT64, -5, 3) == -2);
  CHECK(sum<bool>(MX_BOOL, true, true));
  CHECK(static_cast<float>(sum(MX_FLOAT16, mx::Float16(2048), mx::Float16(1.5f))) == 2050);
  CHECK(static_cast<float>(sum(MX_BFLOAT16, mx::BFloat16(256), mx::BFloat16(3))) == 260);
  float pair[] = {1, 2};
  const float other[] = {10, 20};
  mx::add_elements(MX_COMPLEX64, pair, other, 1);
  CHECK(pair[0] == 11 && pair[1] == 22);
  test::error_of([] { mx::add_elements(99, nullptr, nullptr, 0); }, MX_ERROR_UNSUPPORTED);
}

}  // namespace

int main() {
  return test::run({
      {"requests are kept", requests_are_kept},
      {"staged outputs lie behind each other", staged_outputs_lie_behind_each_other},
      {"kernels that overwrite are added", kernels_that_overwrite_are_added},
      {"staging memory must be given where it is needed", staging_memory_must_be_given_where_it_is_needed},
      {"other arguments are refused", other_arguments_are_refused},
      {"sizes fit or are refused", sizes_fit_or_are_refused},
      {"a plan lives as long as its references", a_plan_lives_as_long_as_its_references},
      {"scratch beyond all memory is out of memory", scratch_beyond_all_memory_is_out_of_memory},
      {"elements are added in their type", elements_are_added_in_their_type},
  });
}
