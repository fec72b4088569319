// SPDX-License-Identifier: Apache-2.0
//
// What two invocations must have in common to share a prepared call.
#include "kernels.hpp"
#include "operator.hpp"

using namespace kernels;
using mx::nd::Params;
using mx::nd::Signature;

namespace {

struct Keyed final : Params {
  explicit Keyed(uint64_t key) : Params(key, {}) {}
};

class Counting final : public mx::nd::Operator {
 public:
  explicit Counting(bool train_sensitive) : Operator("counting", train_sensitive) {}
  int prepared = 0, gradients = 0;

 protected:
  Ref<Call> prepare(const Signature&) override {
    ++prepared;
    return kernels::call(count, 0, 1);
  }
  std::unique_ptr<mx::nd::Gradient> make_gradient(Params&) override {
    ++gradients;
    return std::make_unique<mx::nd::Gradient>();
  }
};

Ref<Array> shaped(std::vector<int64_t> dims, int32_t dtype = MX_FLOAT32) {
  return Array::create({MX_CPU, 0}, dtype, Shape(static_cast<int32_t>(dims.size()), dims.data()));
}

// What a signature is made of, with arrays that stay.
struct Given {
  Given(uint64_t key, std::vector<Ref<Array>> in, std::vector<Ref<Array>> out = {})
      : params(Ref<Keyed>::adopt(new Keyed(key))), kept_inputs(std::move(in)), kept_outputs(std::move(out)) {
    for (const Ref<Array>& each : kept_inputs) inputs.push_back(each.get());
    for (const Ref<Array>& each : kept_outputs) outputs.push_back(each.get());
    signature.params = params.get();
    signature.inputs = inputs.data();
    signature.n_inputs = static_cast<uint32_t>(inputs.size());
    signature.outputs = outputs.data();
    signature.n_outputs = static_cast<uint32_t>(outputs.size());
  }
  Ref<Keyed> params;
  std::vector<Ref<Array>> kept_inputs, kept_outputs;
  std::vector<Array*> inputs, outputs;
  Signature signature;
};

void calls_are_shared_where_nothing_differs() {
  const Ref<Counting> op = Ref<Counting>::adopt(new Counting(false));
  const auto is_new = [&](const Given& given) {
    const int before = op->prepared;
    const Ref<Call> first = op->call(given.signature);
    CHECK(op->call(given.signature).get() == first.get());
    return op->prepared == before + 1;
  };
  CHECK(is_new({1, {shaped({2, 3})}}) && !is_new({1, {shaped({2, 3})}}));
  CHECK(is_new({2, {shaped({2, 3})}}) && is_new({1, {shaped({3, 2})}}) && is_new({1, {shaped({6})}}));
  CHECK(is_new({1, {shaped({2, 3}, MX_INT32)}}) && is_new({1, {shaped({2, 3}), shaped({2, 3})}}));
  CHECK(is_new({1, {shaped({2}), shaped({3})}}) && is_new({1, {shaped({3}), shaped({2})}}));
  CHECK(is_new({1, {shaped({2})}, {shaped({3})}}) && is_new({1, {}, {shaped({2}), shaped({3})}}));
  CHECK(is_new({1, {shaped({2})}, {shaped({4})}}) && is_new({1, {}}) && is_new({1, {shaped({})}}));
  CHECK(is_new({1, {shaped({2, 3, 1})}}) && !is_new({1, {shaped({2}), shaped({3})}}));
  for (const mx_context context : {mx_context{MX_CPU, 1}, mx_context{MX_CPU_PINNED, 0}, mx_context{MX_CPU_PINNED, 1}}) {
    Given elsewhere(1, {shaped({2, 3})});
    elsewhere.signature.context = context;
    CHECK(is_new(elsewhere) && !is_new(elsewhere));
  }
}

void training_counts_where_the_operator_says_so() {
  for (const bool sensitive : {true, false}) {
    const Ref<Counting> op = Ref<Counting>::adopt(new Counting(sensitive));
    Given given(1, {shaped({2})});
    for (const bool training : {false, true, false, true}) {
      given.signature.is_train = training;
      op->call(given.signature);
    }
    CHECK(op->prepared == (sensitive ? 2 : 1));
  }
}

void gradients_are_made_once_for_each_parameters() {
  const Ref<Counting> op = Ref<Counting>::adopt(new Counting(false));
  const Ref<Keyed> a = Ref<Keyed>::adopt(new Keyed(1)), b = Ref<Keyed>::adopt(new Keyed(1));
  const mx::nd::Gradient* first = &op->gradient(*a);
  CHECK(&op->gradient(*a) == first && &op->gradient(*b) != first && op->gradients == 2);
}

void what_a_gradient_reads() {
  using mx::nd::GradientEntry;
  const GradientEntry from_above{GradientEntry::Kind::kOutGrad, 0, 0}, from_below{GradientEntry::Kind::kInput, 0, 0};
  mx::nd::Gradient gradient;
  CHECK(!gradient.reads_out_grad());
  gradient.grads = {{}, from_below};
  gradient.steps.push_back({nullptr, nullptr, {from_below}});
  CHECK(!gradient.reads_out_grad());
  gradient.steps.push_back({nullptr, nullptr, {from_below, from_above}});
  CHECK(gradient.reads_out_grad());
  gradient.steps.clear();
  gradient.grads = {from_below, from_above};
  CHECK(gradient.reads_out_grad());
}

}  // namespace

int main() {
  fakes::Loader loader;
  calls_are_shared_where_nothing_differs();
  training_counts_where_the_operator_says_so();
  gradients_are_made_once_for_each_parameters();
  what_a_gradient_reads();
}
