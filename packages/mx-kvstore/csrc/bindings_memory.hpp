// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

namespace mx::kv {

// Adds `sum_memory`.
void bind_memory(pybind11::module_& module);

}  // namespace mx::kv
