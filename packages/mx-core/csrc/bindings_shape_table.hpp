// SPDX-License-Identifier: Apache-2.0
//
// The type mx_core._native.ShapeTable: what is known of an operator's shapes, by name, while its rule runs.
#pragma once

#include "mx_core/python.hpp"

namespace mx::core {

// A new reference; NULL with a Python error.
//
// The type's methods do at once what is said of complete shapes of exact integers. For the rest they call those of the
// derived class in Python: `_unknown(name)` for a name that there is not, `_merge(name, shape)` for what needs a second
// look, `_unify(names)` for shapes of which none is complete.
// Threads: an object is one thread's.
PyObject* make_shape_table_type() noexcept;

}  // namespace mx::core
