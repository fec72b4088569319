// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

namespace mx::symbol {

// Adds what plans memory to the module.
void bind_memory(pybind11::module_& module);

}  // namespace mx::symbol
