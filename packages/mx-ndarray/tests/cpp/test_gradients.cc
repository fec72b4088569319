// SPDX-License-Identifier: Apache-2.0
//
// Which gradients backward forms, and where they go.
#include "gradient_rules.hpp"

using namespace autograd;

namespace {

Value recorded(const char* name, const std::vector<Value>& inputs) {
  const Recording recording;
  return apply(name, inputs);
}

void only_wanted_gradients_are_formed(fakes::Engine& engine) {
  const Leaf x = leaf({2, 3}), y = leaf({5, 7});
  {
    const Value z = recorded("elemwise_mul", {x.value, constant({5, 7})});
    const Pushed pushed(engine);
    backward({z});
    CHECK(pushed("elemwise_mul") == 1 && pushed.all() == 1);
    CHECK(values(*x.grad) == (Values{5, 7}));
  }
  {
    const Value z = recorded("elemwise_mul", {constant({2, 3}), y.value});
    const Pushed pushed(engine);
    backward({z});
    CHECK(pushed("elemwise_mul") == 1 && values(*y.grad) == (Values{2, 3}));
  }
  const Leaf other = leaf({5, 7});
  const Value z = recorded("elemwise_mul", {x.value, other.value});
  const Pushed pushed(engine);
  const std::vector<Value> grads = backward({z}, {x.value});
  CHECK(pushed("elemwise_mul") == 1 && grads.size() == 1);
  CHECK(values(*grads[0].array) == (Values{5, 7}));
  CHECK(values(*other.grad) == (Values{100, 100}));
}

// The gradient of a head is ones: few are written by the thread that differentiates, many by an operation.
void ones_are_pushed_where_they_are_many(fakes::Engine& engine) {
  for (const size_t n : {size_t{1024}, size_t{1025}}) {
    const Leaf x = leaf(Values(n, 2));
    const Value z = recorded("elemwise_mul", {x.value, constant(Values(n, 3))});
    const Pushed pushed(engine);
    backward({z});
    CHECK(pushed("ones_like") == (n > 1024 ? 1 : 0));
    CHECK(values(*x.grad) == Values(n, 3));
  }
}

void a_variable_without_gradient_gets_none(fakes::Engine& engine) {
  const Leaf y = leaf({5});
  const Value x{array({2}), Node::variable(nullptr, MX_REQ_NULL), 0};
  const Value z = recorded("elemwise_mul", {x, y.value});
  const Pushed pushed(engine);
  backward({z});
  CHECK(pushed("elemwise_mul") == 1 && values(*y.grad) == Values{2});
  CHECK(y.value.node->fresh && !x.node->fresh);
}

void an_only_contribution_is_written_where_it_belongs(fakes::Engine& engine) {
  const Leaf x = leaf({2}), y = leaf({5}, MX_REQ_ADD);
  const Value z = recorded("elemwise_mul", {x.value, y.value});
  const Pushed pushed(engine);
  backward({z});
  CHECK(pushed("_copy") == 0 && pushed("elemwise_mul") == 2);
  CHECK(values(*x.grad) == Values{5} && values(*y.grad) == Values{102});
  CHECK(x.value.node->fresh && y.value.node->fresh);
}

void several_contributions_are_added(fakes::Engine& engine) {
  for (const mx_req req : {MX_REQ_WRITE, MX_REQ_ADD}) {
    const float before = req == MX_REQ_ADD ? 100 : 0;
    const Leaf x = leaf({3}, req), y = leaf({5}, req);
    const Value square = recorded("elemwise_mul", {x.value, x.value});  // twice in one operator
    backward({square});
    engine.drain();
    CHECK(values(*x.grad) == Values{before + 6});
    const Leaf w = leaf({3}, req);
    const Value left = recorded("elemwise_mul", {w.value, y.value});  // in one operator each
    const Value right = recorded("elemwise_mul", {w.value, constant({7})});
    backward({recorded("elemwise_add", {left, right})});
    engine.drain();
    CHECK(values(*w.grad) == Values{before + 12} && values(*y.grad) == Values{before + 3});
  }
}

void sums_grow_in_place_but_not_in_what_was_given(fakes::Engine& engine) {
  const Leaf x = leaf({3});
  mx::nd::BackwardRequest request;
  for (const float grad : {1.0f, 2.0f, 4.0f}) {
    request.heads.push_back(recorded("elemwise_add", {x.value, x.value}));
    request.head_grads.push_back(constant({grad}));
  }
  mx::nd::backward(request, library());
  engine.drain();
  CHECK(values(*x.grad) == Values{14});
  CHECK(values(*request.head_grads[0].array) == Values{1});
  CHECK(values(*request.head_grads[2].array) == Values{4});
  request.heads = {recorded("elemwise_add", {x.value, x.value})};
  request.heads.push_back(request.heads[0]);  // one head twice
  request.head_grads = {constant({1}), constant({2})};
  mx::nd::backward(request, library());
  engine.drain();
  CHECK(values(*x.grad) == Values{6} && values(*request.head_grads[0].array) == Values{1});
}

void one_step_gives_several_gradients(fakes::Engine& engine) {
  const auto writes = [&engine] {
    engine.drain();
    return engine.operations.back().n_writes;
  };
  const Leaf x = leaf({1}), y = leaf({1}, MX_REQ_ADD);
  backward({recorded("pair", {x.value, y.value})});
  CHECK(writes() == 2 && values(*x.grad) == Values{2} && values(*y.grad) == Values{103});
  backward({recorded("pair", {x.value, constant({1})})});
  CHECK(writes() == 1 && values(*x.grad) == Values{2});
  backward({recorded("pair", {constant({1}), y.value})});
  CHECK(writes() == 1 && values(*y.grad) == Values{106});
  // one goes to its leaf, the other through another operator
  const Value middle = recorded("elemwise_mul", {y.value, constant({10})});
  const Pushed pushed(engine);
  backward({recorded("pair", {x.value, middle})});
  CHECK(pushed("_copy") == 0 && values(*x.grad) == Values{2} && values(*y.grad) == Values{136});
  const Leaf twice = leaf({1});
  backward({recorded("pair", {twice.value, twice.value})});
  engine.drain();
  CHECK(values(*twice.grad) == Values{5});
}

void one_gradient_may_be_that_of_two_inputs(fakes::Engine& engine) {
  const Leaf x = leaf({1}), y = leaf({1}, MX_REQ_ADD);
  backward({recorded("alike", {x.value, y.value})});
  engine.drain();
  CHECK(values(*x.grad) == Values{1} && values(*y.grad) == Values{101});
  for (const bool first : {true, false}) {
    const Value one = constant({1});
    const Value z = recorded("alike", {first ? x.value : one, first ? one : x.value});
    const Pushed pushed(engine);
    backward({z});
    CHECK(pushed("_copy") == 1 && values(*x.grad) == Values{1});
  }
  mx::nd::BackwardRequest request;
  request.heads = {recorded("alike", {x.value, y.value})};
  request.variables = {x.value, y.value};
  const std::vector<Value> grads = mx::nd::backward(request, library());
  engine.drain();
  CHECK(!grads[0].array->overlaps(*grads[1].array));
  CHECK(values(*grads[0].array) == Values{1} && values(*grads[1].array) == Values{1});
}

void steps_that_nobody_needs_are_not_run(fakes::Engine& engine) {
  const Leaf x = leaf({2}), y = leaf({5});
  {
    const Value z = recorded("chained", {x.value, y.value});
    const Pushed pushed(engine);
    backward({z});
    // what another step reads is not computed in the leaf's gradient
    CHECK(pushed("elemwise_mul") == 1 && pushed("_copy") == 2);
    CHECK(values(*x.grad) == Values{5} && values(*y.grad) == Values{1});
  }
  {
    const Value z = recorded("chained", {x.value, constant({5})});
    const Pushed pushed(engine);
    backward({z});
    CHECK(pushed("elemwise_mul") == 1 && pushed("_copy") == 1 && values(*x.grad) == Values{5});
  }
  const Value z = recorded("chained", {constant({2}), y.value});
  const Pushed pushed(engine);
  backward({z});
  CHECK(pushed("elemwise_mul") == 0 && values(*y.grad) == Values{1});
}

void no_gradient_is_zero(fakes::Engine& engine) {
  const Leaf x = leaf({2}), y = leaf({2}, MX_REQ_ADD), w = leaf({2});
  const Value cut = recorded("stopped", {recorded("elemwise_mul", {x.value, y.value})});
  const Pushed pushed(engine);
  backward({recorded("elemwise_add", {cut, w.value})});
  CHECK(pushed("elemwise_mul") == 0);  // nothing came back to it
  CHECK(values(*x.grad) == Values{0} && values(*y.grad) == Values{100} && values(*w.grad) == Values{1});
  CHECK(x.value.node->fresh && y.value.node->fresh);
}

void a_loss_has_its_gradient_whatever_comes_back(fakes::Engine& engine) {
  const Leaf x = leaf({3});
  const Value lost = recorded("loss", {x.value});
  backward({recorded("stopped", {lost})});
  engine.drain();
  CHECK(values(*x.grad) == Values{6});
}

void results_may_be_part_of_the_gradient(fakes::Engine& engine) {
  const Leaf x = leaf({3});
  const Value y = recorded("exponential", {x.value});
  mx::nd::BackwardRequest request;
  request.heads = {y};
  request.head_grads = {constant({5})};
  mx::nd::backward(request, library());
  engine.drain();
  CHECK(values(*x.grad) == Values{15});
}

void what_was_not_broadcast_is_passed_on(fakes::Engine& engine) {
  const Leaf x = leaf({3});
  const Value head = recorded("broadcast", {x.value});
  mx::nd::BackwardRequest request;
  request.heads = {head, head};
  request.head_grads = {constant({5}), constant({6})};
  request.variables = {x.value};
  request.retain_graph = true;
  {
    const Pushed pushed(engine);
    const std::vector<Value> grads = mx::nd::backward(request, library());
    CHECK(pushed("_unbroadcast") == 0 && values(*grads[0].array) == Values{11});
  }
  request.heads = {head};
  request.head_grads = {constant({5})};
  const std::vector<Value> grads = mx::nd::backward(request, library());
  engine.drain();
  CHECK(values(*grads[0].array) == Values{5});
  CHECK(!grads[0].array->overlaps(*request.head_grads[0].array));
  request.variables.clear();
  const Pushed pushed(engine);
  mx::nd::backward(request, library());  // into the gradient it is computed
  CHECK(pushed("_unbroadcast") == 1 && pushed("_copy") == 0 && values(*x.grad) == Values{5});
}

void results_that_nobody_used_count_as_zero(fakes::Engine& engine) {
  for (const size_t used : {0, 1}) {
    const Leaf x = leaf({3, 3});
    std::vector<Value> halves;
    {
      const Recording recording;
      halves = apply_all("halves", {x.value});
    }
    CHECK(halves[1].index == 1 && halves[1].node.get() == halves[0].node.get());
    const Pushed pushed(engine);
    backward({halves[used]}, {}, true);
    CHECK(pushed("zeros_like") == 1 && values(*x.grad) == (Values{1, 1}));
    backward(halves);
    CHECK(pushed("zeros_like") == 1 && values(*x.grad) == (Values{2, 2}));
  }
}

void fewer_gradients_than_inputs_and_fewer_inputs_than_gradients(fakes::Engine& engine) {
  const Leaf x = leaf({2}), state = leaf({5});
  const Value z = recorded("exponential", {x.value, state.value});  // its gradient knows one input
  backward({z});
  engine.drain();
  CHECK(values(*x.grad) == Values{2} && values(*state.grad) == Values{0});
  // no result of a step belongs to the second input
  for (const auto& [name, behind] : {std::pair{"state 1", step(0, 1)}, std::pair{"state 2", step(1)},
                                     std::pair{"state 3", step(0, 0)}}) {
    library().put(name, copy,
                  {{{"multiples", {out_grad(0)}}, {"_copy", {out_grad(0)}}}, {step(0, 0)}, {}, {}, behind});
    const Leaf own = leaf({2}), other = leaf({5});
    const Value head = recorded(name, {own.value, other.value});
    const Pushed pushed(engine);
    backward({head});
    CHECK(pushed("multiples") == 1 && pushed("_copy") == 0 && pushed("zeros_like") == 1 && pushed.all() == 2);
    CHECK(values(*own.grad) == Values{2} && values(*other.grad) == Values{0});
    const auto step_of = [](const mx_operation& each) { return std::string(each.name) == "multiples"; };
    const auto last = std::find_if(engine.operations.rbegin(), engine.operations.rend(), step_of);
    CHECK(last->n_writes == 1);
  }
  library().put("optional", copy, {{{"multiples", {out_grad(0)}}}, {step(0, 0), step(0, 1)}, {}, {}});
  backward({recorded("optional", {x.value})});
  engine.drain();
  CHECK(values(*x.grad) == Values{2});
}

}  // namespace

int main() {
  fakes::Loader loader;
  fakes::Engine& engine = loader.engine_;
  {
    const MoreOperators operators;
    only_wanted_gradients_are_formed(engine);
    ones_are_pushed_where_they_are_many(engine);
    a_variable_without_gradient_gets_none(engine);
    an_only_contribution_is_written_where_it_belongs(engine);
    several_contributions_are_added(engine);
    sums_grow_in_place_but_not_in_what_was_given(engine);
    one_step_gives_several_gradients(engine);
    one_gradient_may_be_that_of_two_inputs(engine);
    steps_that_nobody_needs_are_not_run(engine);
    no_gradient_is_zero(engine);
    a_loss_has_its_gradient_whatever_comes_back(engine);
    results_may_be_part_of_the_gradient(engine);
    what_was_not_broadcast_is_passed_on(engine);
    results_that_nobody_used_count_as_zero(engine);
    fewer_gradients_than_inputs_and_fewer_inputs_than_gradients(engine);
  }
  engine.drain();
  CHECK(loader.storage_.alive == 0);
}
