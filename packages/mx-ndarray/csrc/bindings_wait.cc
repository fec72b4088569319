// SPDX-License-Identifier: Apache-2.0
//
// Waiting for arrays, and what went wrong while they were computed.
#include "bindings.hpp"
#include "interpreter_lock.hpp"

namespace mx::nd {
namespace {

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

// Waits, and keeps the place while signals are looked for where the engine can.
FailureRef wait_for(const mx_engine_api* engine, mx_variable* variable, int32_t for_write) {
  if (!MX_HAS(engine->head.size, mx_engine_api, wait_for_variable_while)) {
    return wait_in_slices([&](mx_failure** failure, mx_error* error) {
      return engine->wait_for_variable(engine->self, variable, for_write, kSignalInterval, failure, error);
    });
  }
  mx_failure* failure = nullptr;
  mx_error error{};
  int32_t status = MX_OK;
  {
    const GilRelease released;
    status = engine->wait_for_variable_while(engine->self, variable, for_write, kSignalInterval, no_signal, nullptr,
                                             &failure, &error);
  }
  if (status == MX_TIMEOUT) throw PythonErrorSet{};
  check(status, error);
  return FailureRef(failure);
}

// Ends a wait that need not block, without giving up the lock of the interpreter; raises the failure.
// False when the wait would block.
bool ready(const mx_engine_api* engine, mx_variable* variable, int32_t for_write) {
  if (interpreter_lock_state().forking.load(std::memory_order_relaxed)) return false;
  if (engine->variable_ready(engine->self, variable, for_write) == 0) return false;
  mx_failure* failure = nullptr;
  mx_error error{};
  const int32_t status = engine->wait_for_variable(engine->self, variable, for_write, 0, &failure, &error);
  if (status == MX_TIMEOUT) return false;  // another thread's push came between
  check(status, error);
  raise_if_failed(FailureRef(failure));
  return true;
}

}  // namespace

int32_t no_signal(void*) {
  const GilAcquire acquired;
  return PyErr_CheckSignals() == 0 ? 1 : 0;
}

void raise_if_failed(const FailureRef& failure) {
  if (!failure) return;
  raise_failure(failure.get());
  throw PythonErrorSet{};
}

void report_earlier(const FailureRef& failure) {
  if (!failure) return;
  if (hooks().sticky_errors) raise_if_failed(failure);
  const std::string text = std::string("reading an array that was never computed: ") +
                           failure.get()->message + " (see its .error)";
  if (PyErr_WarnEx(hooks().unsafe_read_warning.ptr(), text.c_str(), 1) != 0) {
    throw PythonErrorSet{};
  }
}

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
  const int32_t writes = for_write ? 1 : 0;
  if (!ready(engine, variable, writes)) raise_if_failed(wait_for(engine, variable, writes));
  report_earlier(FailureRef(engine->variable_failure(engine->self, variable)));
}

void wait_all() {
  const mx_engine_api* engine = Runtime::instance().engine();
  raise_if_failed(wait_in_slices([&](mx_failure** failure, mx_error* error) {
    return engine->wait_for_all(engine->self, kSignalInterval, failure, error);
  }));
}

py::object error_of(Array& array) {
  const mx_engine_api* engine = Runtime::instance().engine();
  const FailureRef failure(engine->variable_failure(engine->self, array.variable()));
  return failure ? exception_of(failure.get()) : py::none();
}

}  // namespace mx::nd
