// SPDX-License-Identifier: Apache-2.0
//
// Operators with gradients on float32, how they are applied, and backward over them.
#pragma once

#include <map>

#include "invoke.hpp"
#include "kernels.hpp"

namespace autograd {

using namespace kernels;
using mx::nd::GradientEntry;
using mx::nd::Keep;
using mx::nd::Node;
using mx::nd::Params;
using mx::nd::Value;
using Values = std::vector<float>;

struct NoParams final : Params {
  NoParams() : Params(1, {}) {}
};

// Where a gradient, or an input of a step, comes from.
inline GradientEntry zero() { return {GradientEntry::Kind::kZero, 0, 0}; }
inline GradientEntry out_grad(uint32_t i) { return {GradientEntry::Kind::kOutGrad, i, 0}; }
inline GradientEntry input(uint32_t i) { return {GradientEntry::Kind::kInput, i, 0}; }
inline GradientEntry output(uint32_t i) { return {GradientEntry::Kind::kOutput, i, 0}; }
inline GradientEntry step(uint32_t i, uint32_t of = 0) { return {GradientEntry::Kind::kStep, i, of}; }

// A gradient whose operators are named.
struct Rule {
  std::vector<std::pair<const char*, std::vector<GradientEntry>>> steps;
  std::vector<GradientEntry> grads;
  std::vector<Keep> inputs, outputs;
  GradientEntry behind{};  // in memory after the last of `grads`: nobody may look at it
};

class Operator final : public mx::nd::Operator {
 public:
  Operator(const char* name, Run run, Rule rule, int n_outputs)
      : mx::nd::Operator(name, false), literal_(name), run_(run), rule_(std::move(rule)),
        n_outputs_(n_outputs) {}
  int prepared = 0;

 protected:
  Ref<Call> prepare(const mx::nd::Signature& signature) override;
  std::unique_ptr<mx::nd::Gradient> make_gradient(Params&) override;

 private:
  const char* literal_;
  Run run_;
  Rule rule_;
  int n_outputs_;
};

class Library final : public mx::nd::OperatorLibrary {
 public:
  void put(const char* name, Run run, Rule rule, int n_outputs = 1) {
    table_.emplace(name, Ref<Operator>::adopt(new Operator(name, run, std::move(rule), n_outputs)));
    none_.emplace(name, Ref<Params>::adopt(new NoParams));
  }
  mx::nd::Operator& find(const char* name) override { return *table_.at(name); }
  Params& no_params(mx::nd::Operator& op) override { return *none_.at(op.name); }
  void clear() {
    table_.clear();
    none_.clear();
  }

 private:
  std::map<std::string, Ref<Operator>> table_;
  std::map<std::string, Ref<Params>> none_;  // one each: parameters hold their operator's gradient
};

inline Library& library() {
  static auto* one = new Library;
  return *one;
}

inline Ref<Call> Operator::prepare(const mx::nd::Signature& signature) {
  ++prepared;
  const auto n_inputs = static_cast<int>(signature.n_inputs);
  Ref<Call> made = kernels::call(run_, n_inputs, signature.inputs[0]->shape()[0], n_outputs_);
  made->name = literal_;
  for (uint32_t i = 0; i < signature.n_inputs; ++i) made->inplace.push_back({i, 0});
  return made;
}

inline std::unique_ptr<mx::nd::Gradient> Operator::make_gradient(Params&) {
  auto made = std::make_unique<mx::nd::Gradient>();
  for (const auto& [operator_name, inputs] : rule_.steps) {
    made->steps.push_back({Ref<mx::nd::Operator>::share(&library().find(operator_name)),
                           Ref<Params>::adopt(new NoParams), inputs});
  }
  made->grads = rule_.grads;
  made->grads.push_back(rule_.behind);
  made->grads.pop_back();
  made->inputs = rule_.inputs;
  made->outputs = rule_.outputs;
  return made;
}

template <int kValue>
int32_t fill(const mx_plan*, const mx_kernel_context*, const mx_tensor*, uint32_t,
             const mx_tensor* out, const uint8_t* req, uint32_t, mx_error*) {
  for (int64_t i = 0; i < out->shape[0]; ++i) store(*out, i, kValue, *req);
  return MX_OK;
}

inline int32_t copy(const mx_plan*, const mx_kernel_context*, const mx_tensor* in, uint32_t,
                    const mx_tensor* out, const uint8_t* req, uint32_t, mx_error*) {
  for (int64_t i = 0; i < out->shape[0]; ++i) {
    store(*out, i, static_cast<float*>(in->data)[i], *req);
  }
  return MX_OK;
}

constexpr Keep kNothing = Keep::kNothing;
constexpr Keep kValue = Keep::kValue;

// The library with what backward itself applies, and a product; empty again afterwards.
struct Operators {
  Operators() {
    library().put("ones_like", fill<1>, {});
    library().put("zeros_like", fill<0>, {});
    library().put("_copy", copy, {});
    library().put("elemwise_add", add,
                  {{}, {out_grad(0), out_grad(0)}, {kNothing, kNothing}, {kNothing}});
    library().put("elemwise_mul", multiply,
                  {{{"elemwise_mul", {out_grad(0), input(1)}}, {"elemwise_mul", {out_grad(0), input(0)}}},
                   {step(0), step(1)},
                   {kValue, kValue},
                   {kNothing}});
  }
  ~Operators() { library().clear(); }
};

inline std::vector<Value> apply_all(const char* name, const std::vector<Value>& inputs) {
  auto& op = library().find(name);
  mx::nd::Invocation invocation;
  invocation.op = &op;
  invocation.params = &library().no_params(op);
  invocation.inputs = inputs.data();
  invocation.n_inputs = static_cast<uint32_t>(inputs.size());
  std::vector<Value> results;
  mx::nd::invoke(invocation, results);
  return results;
}
inline Value apply(const char* name, const std::vector<Value>& inputs) {
  return apply_all(name, inputs).at(0);
}
inline Value apply(const char* name, const Value& a, const Value& b) { return apply(name, {a, b}); }

// A value in no graph.
inline Value constant(std::vector<float> data) { return {array(std::move(data)), nullptr, 0}; }

// A variable whose gradient holds 100 before.
struct Leaf {
  Value value;
  Ref<Array> grad;
};
inline Leaf leaf(std::vector<float> data, mx_req req = MX_REQ_WRITE) {
  Leaf made;
  made.grad = array(std::vector<float>(data.size(), 100));
  made.value = {array(std::move(data)), Node::variable(made.grad, req), 0};
  return made;
}

// This thread records while it lives.
struct Recording {
  Recording() { mx::nd::mode().recording = true; }
  ~Recording() { mx::nd::mode().recording = false; }
};

inline std::vector<Value> backward(std::vector<Value> heads, std::vector<Value> variables = {},
                                   bool retain = false, bool create = false) {
  mx::nd::BackwardRequest request;
  request.heads = std::move(heads);
  request.variables = std::move(variables);
  request.retain_graph = retain;
  request.create_graph = create;
  return mx::nd::backward(request, library());
}

}  // namespace autograd
