// SPDX-License-Identifier: Apache-2.0
//
// How a Python call site maps to operator inputs and parameters, remembered per
// function so that Python parses the arguments of a call only once.
#pragma once

#include "bindings.hpp"

namespace mx::nd {

// The arguments of one call, as vectorcall passes them.
struct Arguments {
  PyObject* const* values;
  size_t n_positional;
  PyObject* names;  // tuple of the keyword names, or NULL

  size_t size() const noexcept {
    return n_positional + (names == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(names)));
  }
};

// What parsing a call gave.
struct BoundCall {
  Ref<Params> params;
  std::vector<uint32_t> inputs;   // argument number of each input
  int32_t out = -1;               // argument number of `out`
  bool has_context = false;       // `ctx` was given
  mx_context context{MX_CPU, 0};
  std::vector<int32_t> runtime;   // per argument: index of its run-time scalar, or -1
};

// Remembers calls by the names and values of their arguments; arrays match any array.  A value of a
// run-time parameter may differ: then the parameters' scalars are replaced.
class CallSites {
 public:
  // NULL when the call was not seen.  `exact` is false when scalars differ; then `scalars` holds
  // this call's.
  const BoundCall* find(const Arguments& arguments, bool* exact, std::vector<double>* scalars);
  // Remembers, unless an argument cannot be compared safely.
  void insert(const Arguments& arguments, const BoundCall& bound);

 private:
  static constexpr size_t kLimit = 32;
  struct Site {
    std::vector<py::object> values;  // null where an array stood
    size_t n_positional = 0;
    py::object names;
    BoundCall bound;
  };
  bool matches(const Site& site, const Arguments& arguments, bool* exact,
               std::vector<double>* scalars) const;
  std::vector<std::unique_ptr<Site>> sites_;
  size_t next_ = 0;
};

}  // namespace mx::nd
