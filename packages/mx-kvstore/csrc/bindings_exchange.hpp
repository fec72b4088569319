// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

namespace mx::kv {

// Adds Window, Exchange and what belongs to them.
void bind_exchange(pybind11::module_& module);

}  // namespace mx::kv
