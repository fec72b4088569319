// SPDX-License-Identifier: Apache-2.0
//
// The parts of the extension module, one function each.
#pragma once

#include <pybind11/pybind11.h>

namespace mx::io {

void bind_numbers(pybind11::module_& module);
void bind_records(pybind11::module_& module);
void bind_images(pybind11::module_& module);

}  // namespace mx::io
