// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

namespace mx::symbol {

// The native arrays (mx_array*) of a list of NDArrays, which the caller keeps, as bytes.
pybind11::object handles_of(const pybind11::list& arrays);

// Adds to the module what calls a program on the arrays of each call.
void bind_calls(pybind11::module_& module);

}  // namespace mx::symbol
