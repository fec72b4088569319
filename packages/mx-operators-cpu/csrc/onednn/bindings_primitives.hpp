// SPDX-License-Identifier: Apache-2.0
//
// What the bindings of kernels share that may have none for a signature: those are None in Python.
#pragma once

#include "common/bindings_common.hpp"
#include "mx_core/exit_guard.hpp"
#include "mx_core/gil.hpp"
#include "onednn/memory_desc.hpp"

namespace mx::cpu {

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

// Throws Unsupported for what no kernel of this kind takes: primitives count along an axis in 32 bits, and have no
// float64, which loops of ours compute.
inline void require_primitive(const Spec& spec) {
  if (spec.size() == 0 || (spec.dtype != MX_FLOAT32 && spec.dtype != MX_BFLOAT16 && spec.dtype != MX_FLOAT64))
    throw Unsupported{};
  for (const int64_t extent : spec.shape)
    if (extent > INT32_MAX) throw Unsupported{};
}

// Prepares without the GIL; declining is None. `require`: throws Unsupported for tensors that the kernel does not take.
template <class Make, class Require = decltype(&require_primitive)>
pybind11::object prepare(const Signature& signature, const Make& make, const Require& require = &require_primitive) {
  PlanPtr plan = or_else(PlanPtr(), [&] {
    for (const auto* tensors : {&signature.inputs, &signature.outputs})
      for (const Spec& spec : *tensors)
        require(spec);
    const GilRelease release;
    const ExitHold hold;  // the library keeps what it compiles in static objects
    return make(signature);
  });
  if (plan == nullptr) return pybind11::none();
  return capsule(std::move(plan));
}
template <class Make, class Require = decltype(&require_primitive)>
pybind11::object prepare(Tensors& inputs, Tensors& outputs, const Make& make,
                         const Require& require = &require_primitive) {
  if (!inputs.plain || !outputs.plain) return pybind11::none();
  return prepare(Signature{std::move(inputs.specs), std::move(outputs.specs)}, make, require);
}

}  // namespace mx::cpu
