// SPDX-License-Identifier: Apache-2.0
#include "autograd.hpp"

using namespace autograd;

namespace {

void gradients_reach_the_leaves(fakes::Engine& engine) {
  const Leaf x = leaf({2, 3});
  const Leaf y = leaf({5, 7}, MX_REQ_ADD);
  mx::nd::mode().recording = true;
  const Value z = apply("elemwise_add", apply("elemwise_mul", x.value, y.value), x.value);
  mx::nd::mode().recording = false;
  backward({z});
  engine.drain();
  CHECK(values(*x.grad) == (std::vector<float>{6, 8}));
  CHECK(values(*y.grad) == (std::vector<float>{102, 103}));
  test::error_of([&] { backward({z}); });
  test::error_of([&] { backward({Value{array({1}), nullptr, 0}}); });
}

void second_derivatives(fakes::Engine& engine) {
  const Leaf x = leaf({2});
  mx::nd::mode().recording = true;
  const Value cube = apply("elemwise_mul", apply("elemwise_mul", x.value, x.value), x.value);
  const std::vector<Value> first = backward({cube}, {x.value}, true, true);
  mx::nd::mode().recording = false;
  const std::vector<Value> second = backward({first[0]}, {x.value});
  engine.drain();
  CHECK(values(*first[0].array) == std::vector<float>{12});
  CHECK(values(*second[0].array) == std::vector<float>{12});
}

void gradients_that_are_passed_on_are_no_ones_else(fakes::Engine& engine) {
  const Leaf x = leaf({2});
  const Leaf y = leaf({3});
  mx::nd::mode().recording = true;
  const Value sum = apply("elemwise_add", x.value, y.value);
  mx::nd::mode().recording = false;
  mx::nd::BackwardRequest request;
  request.heads = {sum};
  request.head_grads = {Value{array({7}), nullptr, 0}};
  request.variables = {x.value, y.value};
  const std::vector<Value> grads = mx::nd::backward(request, library());
  engine.drain();
  CHECK(!grads[0].array->overlaps(*grads[1].array));
  for (const Value& grad : grads) {
    CHECK(!grad.array->overlaps(*request.head_grads[0].array));
    CHECK(values(*grad.array) == std::vector<float>{7});
  }
}

void outputs_nobody_reads_are_not_computed(fakes::Engine& engine) {
  const Value inputs[] = {{array({2}), nullptr, 0}, {array({3}), nullptr, 0}};
  auto& op = library().find("elemwise_mul");
  const uint8_t wanted = 0;
  mx::nd::Invocation invocation;
  invocation.op = &op;
  invocation.params = &library().no_params(op);
  invocation.inputs = inputs;
  invocation.n_inputs = 2;
  invocation.wanted = &wanted;
  std::vector<Value> results;
  mx::nd::invoke(invocation, results);
  engine.drain();
  CHECK(results.size() == 1 && results[0].array->address() == nullptr);
}

void long_chains_are_released_without_recursion(fakes::Engine& engine) {
  const Leaf x = leaf({1});
  mx::nd::mode().recording = true;
  Value y = x.value;
  for (int i = 0; i < 100000; ++i) y = apply("elemwise_add", y, x.value);
  mx::nd::mode().recording = false;
  y = {};
  engine.drain();
}

void signatures_are_prepared_once() {
  auto& op = static_cast<Operator&>(library().find("elemwise_mul"));
  op.cache.clear();
  op.prepared = 0;
  for (int i = 0; i < 10; ++i) {
    apply("elemwise_mul", {array({1, 2}), nullptr, 0}, {array({1, 2}), nullptr, 0});
  }
  CHECK(op.prepared == 1);
}

}  // namespace

int main() {
  fakes::Loader loader;
  {
    const Operators operators;
    gradients_reach_the_leaves(loader.engine_);
    second_derivatives(loader.engine_);
    gradients_that_are_passed_on_are_no_ones_else(loader.engine_);
    outputs_nobody_reads_are_not_computed(loader.engine_);
    long_chains_are_released_without_recursion(loader.engine_);
    signatures_are_prepared_once();
  }
  loader.engine_.drain();
  CHECK(loader.storage_.alive == 0);
}
