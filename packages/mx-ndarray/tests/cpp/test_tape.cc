// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "invoke.hpp"
#include "kernels.hpp"

using namespace kernels;
using mx::nd::GradientEntry;
using mx::nd::Keep;
using mx::nd::Node;
using mx::nd::Params;
using mx::nd::Value;

namespace {

struct NoParams final : Params {
  NoParams() : Params(1, {}) {}
};

int32_t ones(const mx_plan*, const mx_kernel_context*, const mx_tensor*, uint32_t,
             const mx_tensor* out, const uint8_t* req, uint32_t, mx_error*) {
  for (int64_t i = 0; i < out->shape[0]; ++i) store(*out, i, 1, *req);
  return MX_OK;
}
int32_t zeros(const mx_plan*, const mx_kernel_context*, const mx_tensor*, uint32_t,
              const mx_tensor* out, const uint8_t* req, uint32_t, mx_error*) {
  for (int64_t i = 0; i < out->shape[0]; ++i) store(*out, i, 0, *req);
  return MX_OK;
}
int32_t copy(const mx_plan*, const mx_kernel_context*, const mx_tensor* in, uint32_t,
             const mx_tensor* out, const uint8_t* req, uint32_t, mx_error*) {
  for (int64_t i = 0; i < out->shape[0]; ++i) {
    store(*out, i, static_cast<float*>(in->data)[i], *req);
  }
  return MX_OK;
}

using GradientRule = std::unique_ptr<mx::nd::Gradient> (*)();

class Operator final : public mx::nd::Operator {
 public:
  Operator(const char* name, Run run, GradientRule rule)
      : mx::nd::Operator(name, false), run_(run), rule_(rule) {}
  int prepared = 0;

 protected:
  Ref<Call> prepare(const mx::nd::Signature& signature) override {
    ++prepared;
    Ref<Call> made = kernels::call(run_, static_cast<int>(signature.n_inputs),
                                   signature.inputs[0]->shape()[0]);
    for (uint32_t i = 0; i < signature.n_inputs; ++i) made->inplace.push_back({i, 0});
    return made;
  }
  std::unique_ptr<mx::nd::Gradient> make_gradient(Params&) override { return rule_(); }

 private:
  Run run_;
  GradientRule rule_;
};

std::unique_ptr<mx::nd::Gradient> no_gradient() { return std::make_unique<mx::nd::Gradient>(); }

class Library final : public mx::nd::OperatorLibrary {
 public:
  Library();
  mx::nd::Operator& find(const char* name) override { return *table_.at(name); }
  Params& no_params(mx::nd::Operator& op) override { return *none_.at(op.name); }

 private:
  std::map<std::string, Ref<Operator>> table_;
  std::map<std::string, Ref<Params>> none_;  // one each: parameters hold their operator's gradient
};
Library* library = nullptr;

GradientEntry entry(GradientEntry::Kind kind, uint32_t index) { return {kind, index, 0}; }

std::unique_ptr<mx::nd::Gradient> gradient_of_product() {
  auto made = std::make_unique<mx::nd::Gradient>();
  for (const uint32_t other : {1u, 0u}) {
    auto& op = library->find("elemwise_mul");
    made->steps.push_back({Ref<mx::nd::Operator>::share(&op),
                           Ref<Params>::adopt(new NoParams),
                           {entry(GradientEntry::Kind::kOutGrad, 0),
                            entry(GradientEntry::Kind::kInput, other)}});
  }
  made->grads = {entry(GradientEntry::Kind::kStep, 0), entry(GradientEntry::Kind::kStep, 1)};
  made->inputs = {Keep::kValue, Keep::kValue};
  made->outputs = {Keep::kNothing};
  return made;
}
std::unique_ptr<mx::nd::Gradient> gradient_of_sum() {
  auto made = std::make_unique<mx::nd::Gradient>();
  made->grads = {entry(GradientEntry::Kind::kOutGrad, 0), entry(GradientEntry::Kind::kOutGrad, 0)};
  made->inputs = {Keep::kNothing, Keep::kNothing};
  made->outputs = {Keep::kNothing};
  return made;
}

Library::Library() {
  const auto put = [this](const char* name, Run run, GradientRule rule) {
    table_.emplace(name, Ref<Operator>::adopt(new Operator(name, run, rule)));
    none_.emplace(name, Ref<Params>::adopt(new NoParams));
  };
  put("elemwise_add", add, gradient_of_sum);
  put("elemwise_mul", multiply, gradient_of_product);
  put("ones_like", ones, no_gradient);
  put("zeros_like", zeros, no_gradient);
  put("_copy", copy, no_gradient);
}

Value apply(const char* name, const Value& a, const Value& b) {
  auto& op = library->find(name);
  const Value inputs[] = {a, b};
  mx::nd::Invocation invocation;
  invocation.op = &op;
  invocation.params = &library->no_params(op);
  invocation.inputs = inputs;
  invocation.n_inputs = 2;
  std::vector<Value> results;
  mx::nd::invoke(invocation, results);
  return results.at(0);
}

struct Leaf {
  Value value;
  Ref<Array> grad;
};
Leaf leaf(std::vector<float> data, mx_req req = MX_REQ_WRITE) {
  Leaf made;
  made.grad = array(std::vector<float>(data.size(), 100));
  made.value = {array(std::move(data)), Node::variable(made.grad, req), 0};
  return made;
}

std::vector<Value> backward(std::vector<Value> heads, std::vector<Value> variables = {},
                            bool retain = false, bool create = false) {
  mx::nd::BackwardRequest request;
  request.heads = std::move(heads);
  request.variables = std::move(variables);
  request.retain_graph = retain;
  request.create_graph = create;
  return mx::nd::backward(request, *library);
}

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
  const std::vector<Value> grads = mx::nd::backward(request, *library);
  engine.drain();
  CHECK(!grads[0].array->overlaps(*grads[1].array));
  for (const Value& grad : grads) {
    CHECK(!grad.array->overlaps(*request.head_grads[0].array));
    CHECK(values(*grad.array) == std::vector<float>{7});
  }
}

void outputs_nobody_reads_are_not_computed(fakes::Engine& engine) {
  const Value inputs[] = {{array({2}), nullptr, 0}, {array({3}), nullptr, 0}};
  auto& op = library->find("elemwise_mul");
  const uint8_t wanted = 0;
  mx::nd::Invocation invocation;
  invocation.op = &op;
  invocation.params = &library->no_params(op);
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
  auto& op = static_cast<Operator&>(library->find("elemwise_mul"));
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
    Library made;
    library = &made;
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
