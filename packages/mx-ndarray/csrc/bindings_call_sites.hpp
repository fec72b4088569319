// SPDX-License-Identifier: Apache-2.0
//
// How a Python call maps to operator inputs and parameters, remembered per function so that Python
// parses the arguments of a call only once.
#pragma once

#include "bindings.hpp"
#include "keyed_cache.hpp"
#include "small_vector.hpp"

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

// What parsing a call gave.  Immutable once it is shared.
struct BoundCall final : Counted {
  void retain() noexcept { add_reference(); }
  void release() noexcept {
    if (drop_reference()) delete this;
  }
  Ref<Params> params;
  std::vector<uint32_t> inputs;   // argument number of each input
  int32_t out = -1;               // argument number of `out`
  bool has_context = false;       // `ctx` was given
  mx_context context{MX_CPU, 0};
  // Objects that the key names by their address.
  std::vector<py::object> named_by_address;

 private:
  ~BoundCall();
};

// One call, bound.
struct CallSite {
  Ref<BoundCall> bound;
  // The call's run-time scalars, in the order of the parameters; empty: those of the parameters.
  SmallVector<double, 8> scalars;
  // The arguments' lists as they were when the call was bound; null when nothing was copied.
  py::object copies;
};

// Calls of one function by the names, types and values of their arguments; arrays match any array, and
// a number given for a run-time parameter any number, unless this thread records: the tape needs
// parameters that hold the call's own.  Threads: any, with the GIL.  A look-up runs no Python.
class CallSites {
 public:
  explicit CallSites(PyOperator& op);
  // Binds the arguments: from what is remembered, or by asking Python.  Throws.
  void bind(const Arguments& arguments, CallSite& site);

 private:
  static constexpr size_t kSites = 1024;
  static constexpr size_t kForms = 64;
  // The arguments of a call without their values: which of them are run-time scalars.
  struct Form final : Counted {
    explicit Form(std::vector<int32_t> runtime) : runtime(std::move(runtime)) {}
    void retain() noexcept { add_reference(); }
    void release() noexcept {
      if (drop_reference()) delete this;
    }
    const std::vector<int32_t> runtime;  // per argument: index of its run-time scalar, or -1
  };
  void bind_slowly(const Arguments& arguments, CallSite& site);

  PyOperator& op_;
  const bool has_runtime_scalars_;
  KeyedCache<BoundCall> sites_{kSites};
  KeyedCache<Form> forms_{kForms};
};

}  // namespace mx::nd
