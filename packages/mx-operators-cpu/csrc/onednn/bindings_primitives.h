// SPDX-License-Identifier: Apache-2.0
//
// What the binding files share: signatures from Python, plans to Python.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <utility>
#include <vector>

#include "mx_core/python.hpp"
#include "onednn/primitive_plan.h"

namespace mx::onednn {

using PySpecs = std::vector<std::pair<Dims, int32_t>>;

inline std::vector<Spec> specs(const PySpecs& given) {
  std::vector<Spec> out;
  for (const auto& [shape, code] : given) {
    int64_t size = 1;
    for (int64_t extent : shape) {  // primitives count along an axis in 32 bits
      if (extent <= 0 || extent > INT32_MAX || __builtin_mul_overflow(size, extent, &size)) throw Unsupported{};
    }
    if (size > INT64_MAX / 8) throw Unsupported{};
    out.push_back({shape, data_type(code)});
  }
  return out;
}

inline pybind11::object capsule(PlanPtr plan) {
  mx_plan* raw = plan.get();
  PyObject* made = PyCapsule_New(raw, MX_PLAN_CAPSULE, [](PyObject* self) {
    auto* held = static_cast<mx_plan*>(PyCapsule_GetPointer(self, MX_PLAN_CAPSULE));
    held->release(held);
  });
  if (made == nullptr) throw pybind11::error_already_set();
  plan.release();
  return pybind11::reinterpret_steal<pybind11::object>(made);
}

// `body()`, or `otherwise` where oneDNN has no kernel.
template <class T, class Body>
T or_else(T otherwise, const Body& body) {
  try {
    return body();
  } catch (const Unsupported&) {
    return otherwise;
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_unimplemented || e.status == dnnl_invalid_arguments) return otherwise;
    throw Error(e.status == dnnl_out_of_memory ? MX_ERROR_MEMORY : MX_ERROR, e.what());
  }
}

// Prepares without the GIL; declining is None.
template <class Make>
pybind11::object prepare(const PySpecs& inputs, const PySpecs& outputs, const Make& make) {
  PlanPtr plan = or_else(PlanPtr(), [&] {
    const Signature signature{specs(inputs), specs(outputs)};
    const GilRelease release;
    return make(signature);
  });
  if (plan == nullptr) return pybind11::none();
  return capsule(std::move(plan));
}

}  // namespace mx::onednn
