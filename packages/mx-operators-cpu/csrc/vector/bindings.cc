// SPDX-License-Identifier: Apache-2.0
//
// The vector kernels as Python functions: (..., inputs, outputs) -> plan capsule.  Tensors are given
// as (shape, type code).  What has no loops raises NoKernelError.
#include "bindings.h"

#include "expression_plan.h"
#include "loops.h"

namespace mx::vector {

std::vector<Spec> specs(const PySpecs& given) {
  std::vector<Spec> made;
  for (const auto& [shape, dtype] : given) made.emplace_back(shape, dtype);
  return made;
}

py::object capsule(PlanPtr plan) {
  mx_plan* raw = plan.get();
  PyObject* made = PyCapsule_New(raw, MX_PLAN_CAPSULE, [](PyObject* self) {
    auto* held = static_cast<mx_plan*>(PyCapsule_GetPointer(self, MX_PLAN_CAPSULE));
    held->release(held);
  });
  if (made == nullptr) throw py::error_already_set();
  static_cast<void>(plan.release());
  return py::reinterpret_steal<py::object>(made);
}

namespace {

py::object expression_plan(const py::bytes& serialized, const PySpecs& inputs,
                           const PySpecs& outputs) {
  return capsule(make_expression_plan(std::string_view(serialized), specs(inputs), specs(outputs)));
}

}  // namespace

PYBIND11_MODULE(_vector, module) {
  module.doc() = "Vector kernels: plans (capsule mx.plan.v1) from normalised parameters.";
  py::register_local_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const mx::Error& error) {
      mx::raise_status(error.code(), error.what());
    }
  });
  module.def("instruction_set", [] { return std::string(loops().name); },
             "Name of the loops this CPU runs: baseline, avx2 or avx512.");
  module.def("expression_plan", &expression_plan, py::arg("serialized"), py::arg("inputs"),
             py::arg("outputs"), "A plan for an elementwise expression.");
}

}  // namespace mx::vector
