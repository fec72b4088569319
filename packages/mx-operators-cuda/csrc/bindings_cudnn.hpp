// SPDX-License-Identifier: Apache-2.0
//
// What the parts of the Python module share.
#pragma once

#include <cstdint>
#include <tuple>

#include <pybind11/pybind11.h>

#include "launch_plan.hpp"

namespace mx::cuda {

// (kind, number, offset)
using PyParameter = std::tuple<int, uint64_t, uint64_t>;
// Throws mx::Error for an unknown kind.
Parameter parameter(const PyParameter& given);

void bind_cudnn(pybind11::module_& module);
void bind_blas_lt(pybind11::module_& module);

}  // namespace mx::cuda
