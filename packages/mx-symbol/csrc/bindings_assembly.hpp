// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include "mx_core/invoke.h"

namespace mx::symbol {

// The call in a capsule of mx_ndarray.prepare_call; borrowed.
mx_call* call_of(const pybind11::handle& capsule);

// Adds to the module what puts the nodes of a planned schedule into a program.
void bind_assembly(pybind11::module_& module);

}  // namespace mx::symbol
