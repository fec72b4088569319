// SPDX-License-Identifier: Apache-2.0
#include "bindings_shaped.hpp"

#include <cstring>

namespace mx::nd {
namespace {

constexpr const char* kNames[] = {"_zeros", "_ones", "_full", "_random_uniform", "_random_normal"};
constexpr size_t kKnown = 4096;  // parameters; more start afresh

// By operator, type, and shape or numbers.
KeyedCache<Params>& known_params() {
  static auto* known = new KeyedCache<Params>(kKnown);  // leaked: holds Python objects
  return *known;
}

Ref<Params> params_of(Shaped which, PyOperator& op, const Shape& shape, int32_t dtype) {
  CacheKey key;
  // Operators live as long as the process; another one of the name has another address.
  key.add(reinterpret_cast<uint64_t>(&op));
  key.add(static_cast<uint64_t>(which) << 32 | static_cast<uint32_t>(dtype));
  for (int32_t i = 0; i < shape.ndim(); ++i) key.add(static_cast<uint64_t>(shape[i]));
  if (Ref<Params> known = known_params().find(key)) return known;
  return known_params().insert(
      key, op.params(hooks().shaped_params(op.property, shape_tuple(shape), dtype)));
}

Ref<Params> params_of(PyOperator& op, const Progression& numbers, int32_t dtype) {
  CacheKey key;
  key.add(reinterpret_cast<uint64_t>(&op));
  key.add(static_cast<uint32_t>(dtype));
  for (const double number : {numbers.start, numbers.stop, numbers.step}) {
    uint64_t bits = 0;
    std::memcpy(&bits, &number, sizeof bits);
    key.add(bits);
  }
  key.add(static_cast<uint64_t>(numbers.repeat));
  if (Ref<Params> known = known_params().find(key)) return known;
  return known_params().insert(key, op.params(hooks().progression_params(op.property, numbers.start, numbers.stop,
                                                                         numbers.step, numbers.repeat, dtype)));
}

PyOperator& operator_for(Shaped which) {
  return find_operator(kNames[static_cast<size_t>(which)]);
}

PyObject* make(PyOperator& op, Params& params, mx_context context, const double* scalars) {
  Invocation invocation;
  invocation.op = &op;
  invocation.params = &params;
  invocation.scalars = scalars;
  invocation.context = context;
  invocation.origin = origin();
  std::vector<Value> results;
  invoke(invocation, results);
  return wrap(std::move(results.at(0)));
}

}  // namespace

PyObject* make_shaped(Shaped which, const Shape& shape, int32_t dtype, mx_context context,
                      const double* scalars) {
  PyOperator& op = operator_for(which);
  const Ref<Params> params = params_of(which, op, shape, dtype);
  return make(op, *params, context, scalars);
}

PyObject* make_progression(const Progression& numbers, int32_t dtype, mx_context context) {
  PyOperator& op = find_operator("_arange");
  const Ref<Params> params = params_of(op, numbers, dtype);
  return make(op, *params, context, nullptr);
}

void fill_shaped(Shaped which, Array& target, const double* scalars) {
  PyOperator& op = operator_for(which);
  const Ref<Params> params = params_of(which, op, target.shape(), target.dtype());
  Array* targets[] = {&target};
  Invocation invocation;
  invocation.op = &op;
  invocation.params = params.get();
  invocation.scalars = scalars;
  invocation.outputs = targets;
  invocation.n_outputs = 1;
  invocation.outputs_inform = false;
  invocation.origin = origin();
  std::vector<Value> results;
  invoke(invocation, results);
}

}  // namespace mx::nd
