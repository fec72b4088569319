// SPDX-License-Identifier: Apache-2.0
//
// `x[key]` and `x[key] = number` where a key of integers and slices, the last item perhaps `...`, names a part that is
// not one run of memory: the operators `slice` and `_slice_assign_scalar`, without a step through Python.
#pragma once

#include "bindings.hpp"

namespace mx::nd {

// The array that `self[key]` is; NULL without an exception where Python should judge.
PyObject* take_part(PyArray* self, PyObject* key);
// Writes a number; false where Python should judge.
bool fill_part(PyArray* self, PyObject* key, double number);

}  // namespace mx::nd
