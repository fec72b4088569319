// SPDX-License-Identifier: Apache-2.0
//
// Python functions whose usual calls are served natively.
#pragma once

#include "bindings.hpp"

namespace mx::nd {

constexpr size_t kMostParameters = 7;

// The arguments of a call by parameter; NULL where none was given.
using Bound = PyObject* [kMostParameters];

// A function that may be served natively: its name, its parameters, and what serves it.
struct NativeCall {
  const char* name;
  const char* parameters[kMostParameters];  // NULL after the last one
  // A new reference, or NULL without an exception for calls that Python serves.  Throws.
  PyObject* (*serve)(const Bound& arguments);
};

// The ones there are, up to an entry without a name (bindings_creation.cc).
extern const NativeCall kNativeCalls[];

void register_native_function(py::module_& module);

}  // namespace mx::nd
