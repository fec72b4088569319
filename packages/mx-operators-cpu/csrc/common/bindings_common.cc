// SPDX-License-Identifier: Apache-2.0
#include "common/bindings_common.hpp"

namespace mx::cpu {

std::vector<Spec> specs(const PySpecs& given) {
  std::vector<Spec> made;
  for (const auto& [shape, dtype] : given) {
    int64_t bytes = 16;  // at most an element's
    for (int64_t extent : shape)
      if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes))
        throw Error(MX_ERROR_SHAPE, "[mx-operators-cpu] a tensor's size is negative or does not fit");
    made.emplace_back(shape, dtype);
  }
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

}  // namespace mx::cpu
