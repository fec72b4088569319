// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

namespace mx::kv {

// Adds Window and Links.
void bind_transports(pybind11::module_& module);

}  // namespace mx::kv
