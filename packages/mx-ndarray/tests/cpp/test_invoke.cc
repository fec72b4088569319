// SPDX-License-Identifier: Apache-2.0
//
// One application of an operator: the arrays it writes, what it is asked for, and what is refused.
#include "gradient_rules.hpp"

using namespace autograd;

namespace {

// An invocation that keeps what it names.
struct Applied {
  Applied(const char* name, std::vector<Value> given) : inputs(std::move(given)) {
    auto& op = library().find(name);
    invocation.op = &op;
    invocation.params = &library().no_params(op);
    invocation.inputs = inputs.data();
    invocation.n_inputs = static_cast<uint32_t>(inputs.size());
  }
  Applied& into(std::vector<Array*> arrays, std::vector<uint8_t> requests = {}) {
    outputs = std::move(arrays);
    req = std::move(requests);
    invocation.outputs = outputs.data();
    invocation.n_outputs = static_cast<uint32_t>(outputs.size());
    invocation.req = req.empty() ? nullptr : req.data();
    return *this;
  }
  std::vector<Value> run(fakes::Engine& engine) {
    std::vector<Value> results;
    mx::nd::invoke(invocation, results);
    engine.drain();
    return results;
  }
  std::string refusal() {
    std::vector<Value> results;
    return test::error_of([&] { mx::nd::invoke(invocation, results); });
  }
  std::vector<Value> inputs;
  std::vector<Array*> outputs;
  std::vector<uint8_t> req;
  mx::nd::Invocation invocation;
};

void results_are_new_or_given(fakes::Engine& engine) {
  const Value x = constant({1, 2});
  const std::vector<Value> fresh = Applied("multiples", {x}).run(engine);
  CHECK(fresh.size() == 2 && fresh[0].index == 0 && fresh[1].index == 1 && !fresh[0].node);
  CHECK(values(*fresh[0].array) == (Values{2, 4}) && values(*fresh[1].array) == (Values{3, 6}));
  Ref<Array> a = array({10, 10}), b = array({20, 20});
  const std::vector<Value> both = Applied("multiples", {x}).into({a.get(), b.get()}).run(engine);
  CHECK(both[0].array.get() == a.get() && both[1].array.get() == b.get());
  CHECK(values(*a) == (Values{2, 4}) && values(*b) == (Values{3, 6}));
  Applied("multiples", {x}).into({a.get(), b.get()}, {MX_REQ_ADD, MX_REQ_NULL}).run(engine);
  CHECK(values(*a) == (Values{4, 8}) && values(*b) == (Values{3, 6}));
}

void some_results_may_be_given(fakes::Engine& engine) {
  const Value x = constant({1});
  Ref<Array> a = array({10});
  for (const size_t given : {0, 1}) {
    Applied applied("multiples", {x});
    applied.into(given == 0 ? std::vector<Array*>{a.get()} : std::vector<Array*>{nullptr, a.get()});
    applied.invocation.outputs_inform = false;
    const std::vector<Value> results = applied.run(engine);
    CHECK(results[given].array.get() == a.get() && results[1 - given].array.get() != a.get());
    CHECK(values(*results[0].array) == Values{2} && values(*results[1].array) == Values{3});
  }
}

void only_wanted_results_are_computed(fakes::Engine& engine) {
  const auto computed = [&](std::vector<uint8_t> wanted) {
    Applied applied("multiples", {constant({1})});
    applied.invocation.wanted = wanted.data();
    applied.invocation.n_wanted = static_cast<uint32_t>(wanted.size());
    const Pushed pushed(engine);
    const std::vector<Value> results = applied.run(engine);
    const std::pair found(results[0].array->address() != nullptr, results[1].array->address() != nullptr);
    CHECK(pushed.all() == (found.first || found.second ? 1 : 0));
    return found;
  };
  CHECK(computed({1, 1}) == std::pair(true, true) && computed({1, 0}) == std::pair(true, false));
  CHECK(computed({0, 1}) == std::pair(false, true) && computed({1}) == std::pair(true, false));
  CHECK(computed({0}) == std::pair(false, false));
}

void wrong_numbers_of_results_are_refused(fakes::Engine& engine) {
  Ref<Array> a = array({1}), b = array({1}), c = array({1});
  Applied applied("multiples", {constant({1})});
  CHECK(applied.into({a.get()}).refusal() == "[multiples] out: expected 2 arrays, got 1");
  CHECK(applied.into({a.get(), b.get(), c.get()}).refusal() == "[multiples] out: expected 2 arrays, got 3");
  applied.invocation.outputs_inform = false;
  CHECK(applied.refusal() == "[multiples] out: expected 2 arrays, got 3");
  applied.into({a.get(), b.get()}).run(engine);
  CHECK(values(*a) == Values{2} && values(*b) == Values{3});
}

// An operator whose call a test makes.
class Made final : public mx::nd::Operator {
 public:
  explicit Made(Ref<Call> made) : Operator("made", false), call_(std::move(made)) {}

 protected:
  Ref<Call> prepare(const mx::nd::Signature&) override { return call_; }
  std::unique_ptr<mx::nd::Gradient> make_gradient(Params&) override {
    auto made = std::make_unique<mx::nd::Gradient>();
    made->grads = {zero()};
    made->inputs = {kNothing};
    made->outputs = {kValue};
    return made;
  }

 private:
  Ref<Call> call_;
};

std::string refusal_of(mx::nd::Operator& op, const Value& x, Array* out = nullptr, uint8_t req = MX_REQ_WRITE) {
  const Ref<Params> params = Ref<Params>::adopt(new NoParams);
  mx::nd::Invocation invocation;
  invocation.op = &op;
  invocation.params = params.get();
  invocation.inputs = &x;
  invocation.n_inputs = 1;
  invocation.outputs = &out;
  invocation.n_outputs = out == nullptr ? 0 : 1;
  invocation.req = &req;
  std::vector<Value> results;
  try {
    mx::nd::invoke(invocation, results);
  } catch (const mx::Error& error) {
    CHECK(error.code() == MX_ERROR_VALUE);
    return error.what();
  }
  return "";
}

void states_in_read_only_memory_are_refused(fakes::Engine& engine) {
  float memory = 1;
  auto chunk = mx::nd::Chunk::foreign({MX_CPU, 0}, &memory, sizeof memory, nullptr, [](void*) {}, true);
  const int64_t one = 1;
  const Value state{Array::wrap(std::move(chunk), 0, MX_FLOAT32, Shape(1, &one)), nullptr, 0};
  for (const bool writes : {true, false}) {
    Ref<Call> call = kernels::call(copy, 1, 1);
    if (writes) call->mutated = {0};
    const Ref<Made> op = Ref<Made>::adopt(new Made(std::move(call)));
    CHECK(refusal_of(*op, state) ==
          (writes ? "[made] input 0 is written, but its memory is read-only; pass a copy" : ""));
    CHECK(refusal_of(*op, constant({1})).empty());
    engine.drain();
    CHECK(engine.operations.back().n_writes == (writes ? 2 : 1));
  }
}

int32_t two_ones(const mx_plan*, const mx_kernel_context* context, const mx_tensor*, uint32_t, const mx_tensor*,
                 const uint8_t*, uint32_t, mx_error* error) {
  const int64_t two = 2;
  mx_tensor out{};
  const int32_t status = context->alloc_output(context, 0, 1, &two, &out, error);
  if (status == MX_OK) std::fill_n(static_cast<float*>(out.data), 2, 1.0f);
  return status;
}

void results_of_unknown_shape(fakes::Engine& engine) {
  Ref<Call> call = kernels::call(two_ones, 1, 1);
  call->dynamic_output = true;
  call->seal();
  const Ref<Made> op = Ref<Made>::adopt(new Made(call));
  Ref<Array> out = Array::unshaped({MX_CPU, 0}, MX_FLOAT32);
  CHECK(refusal_of(*op, constant({1}), out.get(), MX_REQ_ADD) ==
        "[made] cannot add to outputs of unknown shape");
  CHECK(refusal_of(*op, constant({1}), out.get()).empty());
  engine.drain();
  CHECK(values(*out) == (Values{1, 1}));
  Ref<Array> other = array({7, 7, 7});  // of another shape: told when the kernel asks
  CHECK(refusal_of(*op, constant({1}), other.get()).empty());
  engine.drain();
  CHECK(std::string(other->variable()->failure->message) == "[test] output 0: expected shape (3,), got (2,)");
  // recorded before the shape is known: zeros of that shape are made later
  const Leaf x = leaf({1});
  const Ref<Params> params = Ref<Params>::adopt(new NoParams);
  mx::nd::Invocation invocation;
  invocation.op = op.get();
  invocation.params = params.get();
  invocation.inputs = &x.value;
  invocation.n_inputs = 1;
  std::vector<Value> results;
  {
    const Recording recording;
    mx::nd::invoke(invocation, results);
  }
  engine.drain();
  CHECK(results[0].node && values(*results[0].array) == (Values{1, 1}));
  backward(results);
  engine.drain();
  CHECK(values(*x.grad) == Values{0});
}

void what_is_recorded(fakes::Engine& engine) {
  const Leaf x = leaf({1});
  CHECK(!apply("_copy", {x.value}).node);
  const Recording recording;
  CHECK(!apply("_copy", {constant({1})}).node);
  CHECK(apply("_copy", {x.value}).node);
  CHECK(apply("elemwise_add", constant({1}), x.value).node && apply("elemwise_add", x.value, constant({1})).node);
  engine.drain();
}

// Notes the scalars it gets.
int32_t note_scalars(const mx_plan*, const mx_kernel_context* context, const mx_tensor*, uint32_t,
                     const mx_tensor* out, const uint8_t* req, uint32_t, mx_error*) {
  store(*out, 0, static_cast<float>(context->scalars[0]), *req);
  return MX_OK;
}

struct Scaled final : Params {
  Scaled() : Params(2, {1.5}) {}
};

void scalars_are_the_parameters_or_given(fakes::Engine& engine) {
  Ref<Call> call = kernels::call(note_scalars, 1, 1);
  call->n_scalars = 1;
  const Ref<Made> op = Ref<Made>::adopt(new Made(std::move(call)));
  const Ref<Scaled> params = Ref<Scaled>::adopt(new Scaled);
  const Value x = constant({0});
  mx::nd::Invocation invocation;
  invocation.op = op.get();
  invocation.params = params.get();
  invocation.inputs = &x;
  invocation.n_inputs = 1;
  std::vector<Value> results;
  mx::nd::invoke(invocation, results);
  engine.drain();
  CHECK(values(*results[0].array) == Values{1.5});
  const double given = 2.5;
  invocation.scalars = &given;
  mx::nd::invoke(invocation, results);
  engine.drain();
  CHECK(values(*results[0].array) == Values{2.5});
}

}  // namespace

int main() {
  fakes::Loader loader;
  fakes::Engine& engine = loader.engine_;
  {
    const MoreOperators operators;
    results_are_new_or_given(engine);
    some_results_may_be_given(engine);
    only_wanted_results_are_computed(engine);
    wrong_numbers_of_results_are_refused(engine);
    states_in_read_only_memory_are_refused(engine);
    results_of_unknown_shape(engine);
    what_is_recorded(engine);
    scalars_are_the_parameters_or_given(engine);
  }
  engine.drain();
  CHECK(loader.storage_.alive == 0);
}
