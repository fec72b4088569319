// SPDX-License-Identifier: Apache-2.0
//
// Arrays given as `out`.
#pragma once

#include "bindings.hpp"
#include "small_vector.hpp"

namespace mx::nd {

// Holds the arrays, so that a list may change while the operator is invoked.
struct Targets {
  SmallVector<py::object, 4> objects;
  SmallVector<Array*, 4> arrays;

  // From an array, or a list or tuple of arrays.  Throws unless all of them may be written.
  void collect(PyObject* out, const std::string& name);
  // The targets hold what was recorded.
  void adopt(const std::vector<Value>& results) const noexcept;

 private:
  void add(py::object item, const std::string& name);
};

}  // namespace mx::nd
