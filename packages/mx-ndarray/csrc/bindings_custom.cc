// SPDX-License-Identifier: Apache-2.0
//
// Functions written in Python as operations of the engine.
#include "bindings.hpp"
#include "interpreter_lock.hpp"

namespace mx::nd {
namespace {

// Their memory is that of the call's context.
std::vector<Array*> arrays_of(const py::list& list, const Call& call, std::vector<TensorSpec>& specs) {
  std::vector<Array*> arrays;
  for (const py::handle item : list) {
    Array* array = expect_array(item.ptr(), "[push_function]")->array;
    wait_for_shape(*array);
    if (!same_memory(array->context(), call.context)) {
      Runtime& runtime = Runtime::instance();
      throw Error(MX_ERROR_VALUE, std::string("[") + call.name + "] expected arrays on " + runtime.text(call.context) +
                                      ", got one on " + runtime.text(array->context()));
    }
    arrays.push_back(array);
    TensorSpec spec;
    spec.shape = array->shape();
    spec.dtype = array->dtype();
    specs.push_back(std::move(spec));
  }
  return arrays;
}

// Runs `function(context, inputs) -> outputs, new values of mutated inputs` on a Python thread of
// the engine, never on this one: it may wait for what this thread does next.
void push_function(const std::string& name, const py::object& function, const py::list& inputs,
                   const py::list& outputs, const std::vector<uint32_t>& mutated, bool is_train,
                   mx_context context) {
  Ref<Call> call = Ref<Call>::adopt(new Call);
  const mx_engine_api* engine = Runtime::instance().engine();
  call->name = engine->intern(engine->self, name.c_str());
  call->context = context;
  const std::vector<Array*> in = arrays_of(inputs, *call, call->inputs);
  const std::vector<Array*> out = arrays_of(outputs, *call, call->outputs);
  call->visible_outputs = static_cast<uint32_t>(out.size());
  for (const uint32_t i : mutated) {
    if (i >= in.size()) throw Error(MX_ERROR_INDEX, "[" + name + "] mutated: no such input");
  }
  call->mutated = mutated;
  call->foreign = python_kernel(function);
  call->seal();
  call->push_flags &= ~MX_PUSH_INLINE;
  call->runs_inline = false;
  const char* line = origin();
  const int32_t priority = mode().priority;
  const WithoutInterpreter without(true);
  push(*call, in.data(), static_cast<uint32_t>(in.size()), out.data(), nullptr,
       static_cast<uint32_t>(out.size()), nullptr, 0, is_train, priority, line);
}

}  // namespace

void register_custom(py::module_& module) {
  module.def(
      "push_function",
      [](const std::string& name, const py::object& function, const py::list& inputs,
         const py::list& outputs, const std::vector<uint32_t>& mutated, bool is_train,
         std::pair<int32_t, int32_t> context) {
        translated([&] {
          push_function(name, function, inputs, outputs, mutated, is_train, {context.first, context.second});
        });
      },
      py::arg("name"), py::arg("function"), py::arg("inputs"), py::arg("outputs"),
      py::arg("mutated"), py::arg("is_train"), py::arg("context"),
      "Pushes a kernel written in Python on arrays of a context; returns at once.");
}

}  // namespace mx::nd
