// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

namespace mx::kv {

// Adds Exchange and what belongs to it; Window and Links are there already.
void bind_exchange(pybind11::module_& module);

}  // namespace mx::kv
