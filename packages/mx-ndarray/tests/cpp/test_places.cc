// SPDX-License-Identifier: Apache-2.0
//
// Where arrays lie: what one kernel reaches, what is refused, and how copies between places are pushed.
#include "autograd.hpp"
#include "device_loader.hpp"

using namespace autograd;
using fakes::DeviceLoader;
using fakes::kOtherType;
using fakes::kType;

namespace {

constexpr mx_context kHost{MX_CPU, 0}, kDevice{kType, 0}, kSecond{kType, 1}, kForeign{kOtherType, 0};

Shape sized(int64_t n) { return {1, &n}; }
Ref<Array> at(mx_context context, int64_t n = 2) { return Array::create(context, MX_FLOAT32, sized(n)); }

void what_one_kernel_reaches() {
  using mx::nd::same_memory;
  CHECK(same_memory(kHost, kHost) && same_memory(kHost, {MX_CPU, 3}));
  CHECK(same_memory(kHost, {MX_CPU_PINNED, 0}) && same_memory({MX_CPU_SHARED, 1}, {MX_CPU_PINNED, 2}));
  CHECK(same_memory(kDevice, kDevice) && same_memory(kSecond, kSecond));
  CHECK(!same_memory(kDevice, kSecond) && !same_memory(kDevice, kForeign));
  CHECK(!same_memory(kHost, kDevice) && !same_memory(kDevice, kHost));
  CHECK(!same_memory({MX_CPU, 1}, {MX_GPU, 1}) && !same_memory({MX_GPU, 0}, {MX_GPU, 1}));
}

// Applies the sum of arrays to an array, or a new one.
Value sum(const std::vector<Ref<Array>>& inputs, Array* out = nullptr, mx_context context = kHost) {
  auto& op = library().find("elemwise_add");
  std::vector<Value> given;
  for (const Ref<Array>& array : inputs) given.push_back({array, nullptr, 0});
  mx::nd::Invocation invocation;
  invocation.op = &op;
  invocation.params = &library().no_params(op);
  invocation.inputs = given.data();
  invocation.n_inputs = static_cast<uint32_t>(given.size());
  invocation.outputs = &out;
  invocation.n_outputs = out == nullptr ? 0 : 1;
  invocation.context = context;
  std::vector<Value> results;
  mx::nd::invoke(invocation, results);
  return results.at(0);
}

void arrays_of_a_call_lie_together(DeviceLoader& loader) {
  const auto refusal = [](const std::vector<Ref<Array>>& inputs, Array* out) {
    return test::error_of([&] { sum(inputs, out); }, MX_ERROR_VALUE);
  };
  CHECK(refusal({at(kHost), at(kDevice)}, nullptr) ==
        "[elemwise_add] input 1 lies on type64(0) but the operator runs on type1(0); bring the arrays "
        "together with as_in_context");
  CHECK(test::has(refusal({at(kDevice), at(kSecond)}, nullptr), "input 1 lies on type64(1)"));
  CHECK(test::has(refusal({at(kHost), at(kHost)}, at(kDevice).get()), "output 0 lies on type64(0)"));
  CHECK(test::has(refusal({at(kDevice), at(kDevice)}, at(kForeign).get()), "output 0 lies on type65(0)"));
  const Ref<Array> pinned = at({MX_CPU_PINNED, 1});
  for (const Ref<Array>& each : {pinned, array({0, 0})}) std::memset(each->allocate(), 0, each->bytes());
  const Value result = sum({array({1, 2}), array({3, 4})}, pinned.get());
  loader.host.engine_.drain();
  CHECK(result.array.get() == pinned.get() && values(*pinned) == (Values{4, 6}));
}

// Runs where the caller says, or where the array is that is given for the result.
class Creator final : public mx::nd::Operator {
 public:
  Creator() : Operator("creator", true) {}
  mx_context context{};
  bool is_train = false;
  uint32_t n_outputs = 99;

 protected:
  Ref<Call> prepare(const mx::nd::Signature& signature) override {
    context = signature.context;
    is_train = signature.is_train;
    n_outputs = signature.n_outputs;
    Ref<Call> made = kernels::call(fill<1>, 0, 2);
    made->context = signature.context;
    made->seal();
    return made;
  }
  std::unique_ptr<mx::nd::Gradient> make_gradient(Params&) override { return nullptr; }
};

void where_operators_without_inputs_run(DeviceLoader& loader) {
  const Ref<Creator> op = Ref<Creator>::adopt(new Creator);
  const Ref<NoParams> params = Ref<NoParams>::adopt(new NoParams);
  mx::nd::Invocation invocation;
  invocation.op = op.get();
  invocation.params = params.get();
  invocation.context = kDevice;
  std::vector<Value> results;
  mx::nd::invoke(invocation, results);
  CHECK(op->context.type == kType && op->n_outputs == 0 && results[0].array->context().type == kType);
  Ref<Array> host = at({MX_CPU, 1});
  Array* given = host.get();
  invocation.outputs = &given;
  invocation.n_outputs = 1;
  mx::nd::mode().training = true;
  mx::nd::invoke(invocation, results);
  mx::nd::mode().training = false;
  CHECK(op->context.type == MX_CPU && op->context.id == 1 && op->n_outputs == 1 && op->is_train);
  given = nullptr;
  invocation.outputs_inform = false;
  mx::nd::invoke(invocation, results);
  CHECK(results[0].array->context().type == kType);
  loader.host.engine_.drain();
  CHECK(values(*host) == (Values{1, 1}));
  invocation.context = {kType, 2};
  CHECK(test::has(test::error_of([&] { mx::nd::invoke(invocation, results); }, MX_ERROR_VALUE),
                  "type64(2) does not exist"));
}

void copies_between_places(DeviceLoader& loader) {
  fakes::Engine& engine = loader.host.engine_;
  const auto last = [&]() -> const mx_operation& {
    engine.drain();
    return engine.operations.back();
  };
  Ref<Array> a = array({1, 2, 3, 4});
  Ref<Array> there = at(kDevice, 4), second = at(kSecond, 4), foreign = at(kForeign, 4);
  Ref<Array> back = array({0, 0, 0, 0});
  mx::nd::copy(*a, *there, "file:1");
  CHECK(last().property == MX_FN_COPY_TO_DEVICE && last().context.type == kType && last().flags == 0);
  CHECK(std::string(last().name) == "copyto" && std::string(last().origin) == "file:1");
  CHECK(last().n_reads == 1 && last().n_writes == 1);
  mx::nd::copy(*there, *second, nullptr);
  CHECK(last().property == MX_FN_COPY_TO_DEVICE && last().context.id == 1);
  const size_t before = engine.operations.size();
  mx::nd::copy(*second, *foreign, nullptr);  // through the host: neither knows the other's memory
  CHECK(last().property == MX_FN_COPY_TO_DEVICE && last().context.type == kOtherType);
  CHECK(engine.operations.size() == before + 2);
  CHECK(engine.operations[before].property == MX_FN_COPY_FROM_DEVICE);
  CHECK(engine.operations[before].context.type == kType && engine.operations[before].context.id == 1);
  mx::nd::copy(*foreign, *back, nullptr);
  CHECK(last().property == MX_FN_COPY_FROM_DEVICE && last().context.type == kOtherType);
  CHECK(values(*back) == (Values{1, 2, 3, 4}));
}

void copies_of_parts(DeviceLoader& loader) {
  fakes::Engine& engine = loader.host.engine_;
  const auto part = [](Array& of, size_t first, int64_t n) { return of.view(4 * first, MX_FLOAT32, sized(n)); };
  Ref<Array> a = array({1, 2, 3, 4, 5});
  mx::nd::copy(*part(*a, 0, 4), *part(*a, 1, 4), nullptr);  // overlaps
  engine.drain();
  CHECK(values(*a) == (Values{1, 1, 2, 3, 4}));
  CHECK(engine.operations.back().n_reads == 0 && engine.operations.back().n_writes == 1);
  CHECK(engine.operations.back().property == MX_FN_NORMAL);
  Ref<Array> there = at(kDevice, 5), back = array({0, 0, 0, 0, 0});
  mx::nd::copy(*a, *there, nullptr);
  for (const bool overlap : {true, false}) {
    const size_t before = engine.operations.size();
    const int64_t n = overlap ? 3 : 2;
    mx::nd::copy(*part(*there, 0, n), *part(*there, 2, n), nullptr);
    engine.drain();
    CHECK(engine.operations.size() == before + (overlap ? 2 : 1));  // beside each other or through memory between
  }
  mx::nd::copy(*part(*there, 1, 4), *part(*back, 0, 4), nullptr);
  engine.drain();
  CHECK(values(*back) == (Values{1, 1, 1, 2, 0}));
}

void copies_that_change_nothing_are_not_pushed(DeviceLoader& loader) {
  const size_t before = loader.host.engine_.operations.size();
  Ref<Array> a = array({1, 2}), empty = at(kHost, 0), nothing = at(kDevice, 0);
  mx::nd::copy(*a, *a, nullptr);
  mx::nd::copy(*a, *a->view(0, MX_FLOAT32, sized(2)), nullptr);
  mx::nd::copy(*empty, *nothing, nullptr);
  CHECK(loader.host.engine_.operations.size() == before);
  Ref<Array> longer = array({1, 2, 3});
  CHECK(test::error_of([&] { mx::nd::copy(*a, *longer, nullptr); }, MX_ERROR_SHAPE) ==
        "[copyto] expected shape (3,), got (2,)");
  Ref<Array> whole = Array::create(kHost, MX_INT32, sized(2));
  test::error_of([&] { mx::nd::copy(*a, *whole, nullptr); }, MX_ERROR_SHAPE);
}

// Small copies on the host may run on the pushing thread.
void small_copies_run_at_once(DeviceLoader& loader) {
  constexpr auto kMost = static_cast<int64_t>(mx::nd::kInlineBytes / sizeof(float));
  for (const int64_t n : {kMost, kMost + 1}) {
    mx::nd::copy(*at(kHost, n), *at(kHost, n), nullptr);
    loader.host.engine_.drain();
    CHECK(loader.host.engine_.operations.back().flags == (n == kMost ? MX_PUSH_INLINE : 0u));
  }
  for (const auto& [from, to] : {std::pair{kHost, kDevice}, std::pair{kDevice, kHost}, std::pair{kDevice, kSecond}}) {
    mx::nd::copy(*at(from), *at(to), nullptr);
    loader.host.engine_.drain();
    CHECK(loader.host.engine_.operations.back().flags == 0);
  }
}

}  // namespace

int main() {
  DeviceLoader loader;
  {
    const Operators operators;
    what_one_kernel_reaches();
    arrays_of_a_call_lie_together(loader);
    where_operators_without_inputs_run(loader);
    copies_between_places(loader);
    copies_of_parts(loader);
    copies_that_change_nothing_are_not_pushed(loader);
    small_copies_run_at_once(loader);
  }
  loader.host.engine_.drain();
  CHECK(loader.host.storage_.alive == 0 && loader.memory.bytes == 0 && loader.other_memory.bytes == 0);
}
