// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

namespace mx::cuda {

void register_launch(pybind11::module_& module);

}  // namespace mx::cuda
