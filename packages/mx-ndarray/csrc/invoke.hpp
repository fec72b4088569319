// SPDX-License-Identifier: Apache-2.0
//
// Imperative invocation: cache, outputs, push, tape.
#pragma once

#include "tape.hpp"

namespace mx::nd {

struct Invocation {
  Operator* op = nullptr;
  Params* params = nullptr;
  const double* scalars = nullptr;  // instead of the parameters' own; NULL: those
  const Value* inputs = nullptr;
  uint32_t n_inputs = 0;
  Array* const* outputs = nullptr;  // given visible outputs (single ones may be NULL), or NULL
  const uint8_t* req = nullptr;     // for given outputs; NULL: write
  uint32_t n_outputs = 0;
  const uint8_t* wanted = nullptr;  // per visible output whether anybody reads it; NULL: all
  uint32_t n_wanted = 0;            // those after are not wanted
  bool outputs_inform = true;       // given outputs take part in inference; none may be NULL then
  mx_context context{MX_CPU, 0};    // where to run when there is no array
  const char* origin = nullptr;     // lives as long as the process
};

// Applies an operator.  `results` receives the visible outputs.  Throws Error, FailureError, or
// what the operator's `prepare` throws.
void invoke(const Invocation& invocation, std::vector<Value>& results);

// Copies `from` to `to`, which may be on another device; equal type and size.  Throws.
void copy(Array& from, Array& to, const char* origin);

}  // namespace mx::nd
