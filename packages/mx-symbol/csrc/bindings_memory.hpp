// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

namespace mx::symbol {

// Adds the placement of blocks to the module.
void bind_memory(pybind11::module_& module);

}  // namespace mx::symbol
