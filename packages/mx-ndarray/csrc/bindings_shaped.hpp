// SPDX-License-Identifier: Apache-2.0
//
// Operators without inputs, whose parameters are a shape, a type and run-time scalars: constants and
// random numbers.
#pragma once

#include "bindings.hpp"

namespace mx::nd {

enum class Shaped : uint8_t { kZeros, kOnes, kFull, kUniform, kNormal };

constexpr int32_t kDefaultType = -1;  // the operator's own

// A new array of the operator's values.  `scalars` are its run-time parameters, or NULL.
PyObject* make_shaped(Shaped which, const Shape& shape, int32_t dtype, mx_context context,
                      const double* scalars);
// Writes the operator's values into an array.
void fill_shaped(Shaped which, Array& target, const double* scalars);

// An arithmetic progression.
struct Progression {
  double start, stop, step;
  int64_t repeat;  // at least 1
};

// A new array of it.
PyObject* make_progression(const Progression& numbers, int32_t dtype, mx_context context);

}  // namespace mx::nd
