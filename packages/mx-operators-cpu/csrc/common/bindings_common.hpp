// SPDX-License-Identifier: Apache-2.0
//
// What the binding files share.  The only sources that include Python are bindings*.cc.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <utility>
#include <vector>

#include "mx_core/python.hpp"
#include "common/plan.hpp"

namespace py = pybind11;

namespace mx::cpu {

using PySpecs = std::vector<std::pair<Shape, int32_t>>;

std::vector<Spec> specs(const PySpecs& given);
py::object capsule(PlanPtr plan);

// Tensors as Python gives them: pairs (shape, type code), or objects like mx_core.kernels.TensorSpec.
struct Tensors {
  std::vector<Spec> specs;
  bool plain = true;  // of the objects, all are real and row-major
};

// False where `source` is something else.  Throws Error for sizes that do not fit.
bool read_tensors(PyObject* source, Tensors* tensors);

// The plan that `make(inputs, outputs)` makes of plain tensors; None where there is no kernel for them.
template <class Make>
py::object plain_plan(Tensors& inputs, Tensors& outputs, const Make& make) {
  if (!inputs.plain || !outputs.plain) return py::none();
  try {
    return capsule(make(std::move(inputs.specs), std::move(outputs.specs)));
  } catch (const Unsupported&) {
    return py::none();
  }
}

}  // namespace mx::cpu

namespace pybind11::detail {

template <>
struct type_caster<mx::cpu::Tensors> {
  PYBIND11_TYPE_CASTER(mx::cpu::Tensors, const_name("Sequence"));
  bool load(handle source, bool) { return mx::cpu::read_tensors(source.ptr(), &value); }
};

}  // namespace pybind11::detail
