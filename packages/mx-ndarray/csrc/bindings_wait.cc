// SPDX-License-Identifier: Apache-2.0
//
// Waiting for arrays, and what went wrong while they were computed.
#include "bindings.hpp"
#include "interpreter_lock.hpp"

namespace mx::nd {
namespace {

constexpr int64_t kSlice = 50'000'000;  // ns: how long Ctrl-C may wait

// Waits in slices so that signals are seen.
template <class Wait>
FailureRef wait_in_slices(const Wait& wait_once) {
  for (;;) {
    mx_failure* failure = nullptr;
    mx_error error{};
    int32_t status = MX_OK;
    {
      const GilRelease released;
      status = wait_once(&failure, &error);
    }
    if (status == MX_TIMEOUT) {
      if (PyErr_CheckSignals() != 0) throw PythonErrorSet{};
      continue;
    }
    check(status, error);
    return FailureRef(failure);
  }
}

void raise_if_failed(const FailureRef& failure) {
  if (!failure) return;
  raise_failure(failure.get());
  throw PythonErrorSet{};
}

// Ends a wait that need not block, without giving up the lock of the interpreter; raises the failure.
// False when the wait would block.
template <class Wait>
bool ready(const mx_engine_api* engine, mx_variable* variable, bool for_write, const Wait& wait_at_most) {
  if (interpreter_lock_state().forking.load(std::memory_order_relaxed)) return false;
  if (engine->variable_ready(engine->self, variable, for_write ? 1 : 0) == 0) return false;
  mx_failure* failure = nullptr;
  mx_error error{};
  const int32_t status = wait_at_most(0, &failure, &error);
  if (status == MX_TIMEOUT) return false;  // another thread's push came between
  check(status, error);
  raise_if_failed(FailureRef(failure));
  return true;
}

}  // namespace

void wait_for_shape(Array& array) {
  if (!array.pending()) return;
  wait(array, false);
  if (array.pending()) {
    throw Error(MX_ERROR_SHAPE, "[NDArray] has no shape: the operator that should have computed it "
                                "failed; see .error");
  }
}

void wait(Array& array, bool for_write) {
  const mx_engine_api* engine = Runtime::instance().engine();
  mx_variable* variable = array.variable();
  const auto wait_at_most = [&](int64_t nanoseconds, mx_failure** failure, mx_error* error) {
    return engine->wait_for_variable(engine->self, variable, for_write ? 1 : 0, nanoseconds, failure,
                                     error);
  };
  if (!ready(engine, variable, for_write, wait_at_most)) {
    raise_if_failed(wait_in_slices([&](mx_failure** failure, mx_error* error) {
      return wait_at_most(kSlice, failure, error);
    }));
  }
  const FailureRef earlier(engine->variable_failure(engine->self, variable));
  if (!earlier) return;
  if (hooks().sticky_errors) raise_if_failed(earlier);
  const std::string text = std::string("reading an array that was never computed: ") +
                           earlier.get()->message + " (see its .error)";
  if (PyErr_WarnEx(hooks().unsafe_read_warning.ptr(), text.c_str(), 1) != 0) {
    throw PythonErrorSet{};
  }
}

void wait_all() {
  const mx_engine_api* engine = Runtime::instance().engine();
  raise_if_failed(wait_in_slices([&](mx_failure** failure, mx_error* error) {
    return engine->wait_for_all(engine->self, kSlice, failure, error);
  }));
}

py::object error_of(Array& array) {
  const mx_engine_api* engine = Runtime::instance().engine();
  const FailureRef failure(engine->variable_failure(engine->self, array.variable()));
  return failure ? exception_of(failure.get()) : py::none();
}

}  // namespace mx::nd
