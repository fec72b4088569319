// SPDX-License-Identifier: Apache-2.0
//
// What backward is asked for, what it refuses, and what it leaves of the graph.
#include "gradient_rules.hpp"

using namespace autograd;

namespace {

Value product(const Value& a, const Value& b) {
  const Recording recording;
  return apply("elemwise_mul", a, b);
}

void gradients_of_middle_results(fakes::Engine& engine) {
  const Leaf x = leaf({2}), other = leaf({1});
  const Value middle = product(x.value, x.value);
  const Value head = product(middle, middle);
  const std::vector<Value> grads = backward({head}, {middle, x.value, other.value, middle});
  engine.drain();
  CHECK(grads.size() == 4 && !grads[2].array);
  CHECK(values(*grads[0].array) == Values{8} && values(*grads[1].array) == Values{32});
  CHECK(values(*grads[3].array) == Values{8});
  CHECK(values(*x.grad) == Values{100} && !x.value.node->fresh);
  const std::vector<Value> own = backward({x.value}, {x.value});  // the head itself
  engine.drain();
  CHECK(values(*own[0].array) == Values{1});
}

void one_of_several_results_is_differentiated_by(fakes::Engine& engine) {
  const Leaf x = leaf({3});
  std::vector<Value> halves;
  {
    const Recording recording;
    halves = apply_all("halves", {x.value});  // 2·x and 3·x
  }
  const Value head = product(halves[0], halves[1]);
  const std::vector<Value> grads = backward({head}, {halves[0], halves[1]});
  engine.drain();
  CHECK(values(*grads[0].array) == Values{9} && values(*grads[1].array) == Values{6});
}

void gradients_of_gradients_reach_the_leaves(fakes::Engine& engine) {
  const Leaf x = leaf({3}, MX_REQ_ADD);
  const Value cube = product(product(x.value, x.value), x.value);
  std::vector<Value> first;
  {
    const Recording recording;
    first = backward({cube}, {x.value}, true, true);
  }
  backward({first[0]});
  engine.drain();
  CHECK(values(*first[0].array) == Values{27} && values(*x.grad) == Values{118});
  backward({product(x.value, constant({5}))}, {}, false, true);  // into the gradient, and recorded
  engine.drain();
  CHECK(values(*x.grad) == Values{123});
}

void refusals() {
  const Leaf x = leaf({2, 3});
  const Value head = product(x.value, x.value);
  const auto refused = [](const mx::nd::BackwardRequest& request, int32_t code) {
    return test::error_of([&] { mx::nd::backward(request, library()); }, code);
  };
  mx::nd::BackwardRequest request;
  request.heads = {head};
  request.head_grads = {constant({1, 1, 1})};
  CHECK(refused(request, MX_ERROR_SHAPE) ==
        "[autograd] head gradient 0: expected shape (2,) of the head's type, got (3,)");
  const int64_t two = 2;
  request.head_grads = {{Array::create({MX_CPU, 0}, MX_INT32, Shape(1, &two)), nullptr, 0}};
  CHECK(test::has(refused(request, MX_ERROR_SHAPE), "of the head's type"));
  request.head_grads.clear();
  request.variables = {x.value, constant({1})};
  CHECK(refused(request, MX_ERROR) == mx::nd::kNotRecorded);
  request.variables.clear();
  request.heads = {constant({1})};
  CHECK(refused(request, MX_ERROR) == mx::nd::kNotRecorded);
}

void a_refused_backward_leaves_the_graph_whole(fakes::Engine& engine) {
  const Leaf x = leaf({2});
  const Value head = product(x.value, x.value);
  mx::nd::BackwardRequest request;
  request.heads = {head};
  request.head_grads = {constant({1, 1})};
  test::error_of([&] { mx::nd::backward(request, library()); }, MX_ERROR_SHAPE);
  backward({head});
  engine.drain();
  CHECK(values(*x.grad) == Values{4});
}

void a_graph_is_freed_unless_it_is_retained(fakes::Engine& engine) {
  const Leaf x = leaf({2}, MX_REQ_ADD);
  const Value middle = product(x.value, x.value);
  const Value head = product(middle, middle);
  const Value sibling = product(middle, middle);
  for (int i = 0; i < 3; ++i) backward({head}, {}, true);
  backward({head});
  engine.drain();
  CHECK(values(*x.grad) == Values{100 + 4 * 32});
  CHECK(test::error_of([&] { backward({head}); }) == mx::nd::kNotRecorded);
  CHECK(test::error_of([&] { backward({sibling}); }) == mx::nd::kFreed);
}

void what_is_kept_is_what_the_gradient_reads(fakes::Loader& loader) {
  loader.engine_.drain();
  const int before = loader.storage_.alive;
  const Leaf x = leaf({2, 3});
  Value shape_only, by_value;
  {
    const Recording recording;
    shape_only = apply("broadcast", {apply("elemwise_add", x.value, x.value)});
    by_value = apply("exponential", {apply("elemwise_add", x.value, x.value)});
  }
  loader.engine_.drain();
  // x, its gradient and the two results: what was added is kept by nobody
  CHECK(loader.storage_.alive == before + 4);
  backward({shape_only});
  backward({by_value});
  loader.engine_.drain();
  CHECK(values(*x.grad) == (Values{8, 12}));
}

// Notes what it is called with, and gives what it was told to.
struct Custom final : mx::nd::CustomBackward {
  std::vector<Value> backward(const std::vector<Value>& out_grads, const std::vector<Value>& targets,
                              bool retained) override {
    got = out_grads;
    offered = targets;
    was_retained = retained;
    mode = mx::nd::mode();
    return gives;
  }
  bool is_foreign() const noexcept override { return foreign; }
  std::vector<Value> gives, got, offered;
  bool was_retained = false;
  bool foreign = true;
  mx::nd::Mode mode;
};

// Two results of a function of some inputs, and its body, which lives as long as the node.
std::pair<std::vector<Value>, Custom*> custom(const std::vector<Value>& inputs) {
  auto saved = Ref<mx::nd::Saved>::adopt(new mx::nd::Saved);
  for (const Value& value : inputs) saved->inputs.push_back({value.node, value.index});
  std::vector<Value> results = {constant({1}), constant({2})};
  for (const Value& result : results) {
    saved->outputs.push_back({{MX_CPU, 0}, MX_FLOAT32, result.array->shape(), nullptr});
  }
  auto body = std::make_unique<Custom>();
  Custom* seen = body.get();
  saved->body = std::move(body);
  const Ref<Node> node = Node::custom(Ref<const mx::nd::Saved>::adopt(saved.detach()));
  for (uint32_t i = 0; i < results.size(); ++i) {
    results[i].node = node;
    results[i].index = i;
  }
  return {results, seen};
}

void functions_of_the_user(fakes::Engine& engine) {
  const Leaf x = leaf({1}), y = leaf({1}), w = leaf({1});
  const auto [results, body] = custom({x.value, constant({1}), y.value, w.value});
  body->gives = {constant({3}), constant({4}), constant({5})};  // none for the last
  mx::nd::mode().priority = 7;
  mx::nd::BackwardRequest request;
  request.heads = {results[1]};
  request.head_grads = {constant({9})};
  request.retain_graph = true;
  request.training = false;
  mx::nd::backward(request, library());
  CHECK(mx::nd::mode().priority == 7 && !mx::nd::mode().recording);
  engine.drain();
  CHECK(body->got.size() == 2 && values(*body->got[0].array) == Values{0});
  CHECK(values(*body->got[1].array) == Values{9});
  CHECK(!body->got[1].array->overlaps(*request.head_grads[0].array));  // it may write what it gets
  CHECK(body->was_retained && !body->mode.recording && !body->mode.training && body->mode.priority == 7);
  CHECK(values(*x.grad) == Values{3} && values(*y.grad) == Values{5} && values(*w.grad) == Values{0});
  mx::nd::mode().priority = 0;
  body->gives = {{}, {}, constant({6}), {}};
  const std::vector<Value> grads = backward({results[0]}, {y.value, x.value}, true, true);
  engine.drain();
  CHECK(body->mode.recording && body->mode.training);
  CHECK(values(*grads[0].array) == Values{6} && !grads[1].array);
  CHECK(!grads[0].array->overlaps(*body->gives[2].array));
}

// A function that writes gradients where they belong, of one leaf alone and of one that another use adds to.
void functions_that_write_gradients_of_leaves(fakes::Engine& engine) {
  const Leaf x = leaf({1}), y = leaf({1}), added = leaf({1}, MX_REQ_ADD);
  const auto [results, body] = custom({x.value, y.value, y.value, added.value});
  body->foreign = false;
  body->gives = {{x.grad, nullptr, 0}, constant({2}), constant({3}), constant({4})};
  mx::nd::BackwardRequest request;
  request.heads = {results[0]};
  request.head_grads = {constant({9})};
  request.retain_graph = true;
  mx::nd::backward(request, library());
  engine.drain();
  CHECK(body->got[0].array.get() == request.head_grads[0].array.get());  // not copied: it does not write it
  CHECK(body->offered.size() == 4 && body->offered[0].array.get() == x.grad.get());
  CHECK(!body->offered[1].array && !body->offered[2].array && !body->offered[3].array);
  CHECK(values(*x.grad) == Values{100});  // as the function left it, which wrote nothing
  CHECK(values(*y.grad) == Values{5} && values(*added.grad) == Values{104});
  request.head_grads = {{x.grad, nullptr, 0}};
  mx::nd::backward(request, library());
  engine.drain();
  CHECK(body->offered[0].array.get() == x.grad.get());
  CHECK(!body->got[0].array->overlaps(*x.grad));  // what it was is copied before anybody writes it
  CHECK(values(*body->got[0].array) == Values{100});
  backward({results[0]}, {x.value, y.value}, true);
  CHECK(!body->offered[0].array);  // gradients that are returned are nobody's memory
}

}  // namespace

int main() {
  fakes::Loader loader;
  fakes::Engine& engine = loader.engine_;
  {
    const MoreOperators operators;
    gradients_of_middle_results(engine);
    one_of_several_results_is_differentiated_by(engine);
    gradients_of_gradients_reach_the_leaves(engine);
    refusals();
    a_refused_backward_leaves_the_graph_whole(engine);
    a_graph_is_freed_unless_it_is_retained(engine);
    what_is_kept_is_what_the_gradient_reads(loader);
    functions_of_the_user(engine);
    functions_that_write_gradients_of_leaves(engine);
  }
  engine.drain();
  CHECK(loader.storage_.alive == 0);
}
