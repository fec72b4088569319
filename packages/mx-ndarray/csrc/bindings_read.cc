// SPDX-License-Identifier: Apache-2.0
//
// Copying values out of arrays in main memory.
#include <cstring>

#include "bindings.hpp"
#include "interpreter_lock.hpp"

namespace mx::nd {
namespace {

constexpr size_t kUntilSignals = size_t{16} << 20;  // bytes of which a copy takes some milliseconds

// ---- by the thread that wants them ----

struct Reading {
  Array& array;
  void* to;
  FailureRef earlier;  // of what should have computed the values, when somebody has been told
  FailureRef failure;  // of the copy

  void copy() {
    const mx_engine_api* engine = Runtime::instance().engine();
    earlier = FailureRef(engine->variable_failure(engine->self, array.variable()));
    std::memcpy(to, array.allocate(true), array.bytes());
  }
  static void run(void* argument) {
    auto* reading = static_cast<Reading*>(argument);
    reading->failure = FailureRef(failing_or_passing([&] { reading->copy(); }));
  }
};

// Handlers of signals run on the main thread alone. Others need not ask for the lock of the interpreter while they wait,
// and never lose their place.
bool hears_signals() {
  const py::object main = py::module_::import("threading").attr("main_thread")();
  return main.attr("ident").cast<unsigned long>() == PyThread_get_thread_ident();
}

constexpr int64_t kForLong = int64_t{3600} * 1'000'000'000;  // ns
int32_t go_on(void*) { return 1; }

// The place of the read is taken now: nobody's later writes are waited for.
void read_here(const mx_engine_api* engine, Array& array, void* to) {
  Reading reading{array, to, {}, {}};
  mx_failure* failure = nullptr;
  mx_error error{};
  int32_t status = MX_TIMEOUT;
  const bool forking = interpreter_lock_state().forking.load(std::memory_order_relaxed);
  if (array.bytes() < kLetGilGo && !forking && !Runtime::instance().naive()) {
    status = engine->read_variable_while(engine->self, array.variable(), &Reading::run, &reading, 0, nullptr, nullptr,
                                         &failure, &error);
  }
  if (status == MX_TIMEOUT) {
    const bool hears = hears_signals();
    const GilRelease released;
    status = engine->read_variable_while(engine->self, array.variable(), &Reading::run, &reading,
                                         hears ? kSignalInterval : kForLong, hears ? no_signal : go_on, nullptr,
                                         &failure, &error);
  }
  if (status == MX_TIMEOUT) throw PythonErrorSet{};
  check(status, error);
  raise_if_failed(FailureRef(failure));
  raise_if_failed(reading.failure);
  report_earlier(reading.earlier);
}

// ---- by an operation: large copies, so that this thread hears Ctrl-C, and for engines before 1.2 ----

// One copy, shared by the thread that wants it and the operation of the engine that makes it: the
// thread may be interrupted while the operation waits.
struct ReadTask final : Counted {
  void retain() noexcept { add_reference(); }
  void release() noexcept {
    if (drop_reference()) delete this;
  }
  ~ReadTask() { drop(owner); }

  static mx_failure* run(void* argument, const mx_run_context*) {
    auto* task = static_cast<ReadTask*>(argument);
    return failing_or_passing([&] {
      const char* from = static_cast<char*>(task->from->allocate(true)) + task->offset;
      std::memcpy(task->to == nullptr ? task->element : task->to, from, task->bytes);
      task->done.store(true, std::memory_order_release);
    });
  }
  static void destroy(void* argument) { static_cast<ReadTask*>(argument)->release(); }

  Chunk* from = nullptr;  // borrowed: the engine frees it after this operation
  size_t offset = 0;
  size_t bytes = 0;
  void* to = nullptr;      // NULL: to `element`
  py::object owner;        // of `to`
  std::atomic<bool> done{false};
  alignas(16) char element[16];
};

void push_read(Array& array, ReadTask& task) {
  mx_variable* variable = array.variable();
  mx_operation operation{};
  operation.size = sizeof operation;
  // Large copies are another thread's, so that this one hears Ctrl-C meanwhile.
  operation.flags = task.bytes < kUntilSignals ? MX_PUSH_INLINE : 0u;
  operation.context = array.context();
  operation.property = MX_FN_NORMAL;
  operation.priority = mode().priority;
  operation.name = "asnumpy";
  operation.reads = &variable;
  operation.n_reads = 1;
  operation.run = &ReadTask::run;
  operation.argument = &task;
  operation.destroy = &ReadTask::destroy;
  task.retain();
  const mx_engine_api* engine = Runtime::instance().engine();
  const WithoutInterpreter without(task.bytes >= kLetGilGo || Runtime::instance().naive());
  mx_failure* failure = nullptr;
  mx_error error{};
  check(engine->push(engine->self, &operation, &failure, &error), error);
  if (failure != nullptr) throw FailureError{FailureRef(failure)};
}

void read_by_operation(Array& array, void* to, const py::object& owner) {
  const Ref<ReadTask> task = Ref<ReadTask>::adopt(new ReadTask);
  task->from = &array.chunk();
  task->offset = array.offset();
  task->bytes = array.bytes();
  if (owner) task->to = to;  // else the operation may outlive it
  task->owner = owner;
  const mx_engine_api* engine = Runtime::instance().engine();
  if (engine->variable_ready(engine->self, array.variable(), 0) != 0) wait(array, false);  // raises, or warns
  for (;;) {  // again when it was left out for a failure that another thread has been told
    push_read(array, *task);
    if (task->done.load(std::memory_order_acquire)) break;
    wait(array, true);
    if (task->done.load(std::memory_order_acquire)) break;
  }
  if (!owner) std::memcpy(to, task->element, task->bytes);
}

// numpy's PyArray_Scalar, whose place in its table of functions never changes.
PyObject* numpy_scalar(const void* data, int32_t dtype) {
  using Make = PyObject* (*)(const void*, PyObject*, PyObject*);
  constexpr size_t kScalar = 60;
  // The import hands the GIL to other threads: in an initialiser of `known` they would wait for it with the GIL.
  static std::atomic<Make> known{nullptr};
  Make make = known.load(std::memory_order_relaxed);
  if (make == nullptr) {
    const py::object table = py::detail::import_numpy_core_submodule("multiarray").attr("_ARRAY_API");
    auto** functions = static_cast<void**>(PyCapsule_GetPointer(table.ptr(), nullptr));
    if (functions == nullptr) throw PythonErrorSet{};
    make = reinterpret_cast<Make>(functions[kScalar]);
    known.store(make, std::memory_order_relaxed);
  }
  return owned(make(data, numpy_dtype(dtype).ptr(), nullptr));
}

}  // namespace

void read_values(Array& array, void* to, const py::object& owner) {
  const mx_engine_api* engine = Runtime::instance().engine();
  if (array.bytes() == 0) {
    wait(array, false);
  } else if (array.bytes() < kUntilSignals && MX_HAS(engine->head.size, mx_engine_api, read_variable_while)) {
    read_here(engine, array, to);
  } else {
    read_by_operation(array, to, owner);
  }
}

PyObject* as_scalar(PyObject* self, PyObject*) noexcept {
  return protect([&]() -> PyObject* {
    Array& array = *as_array(self)->array;
    wait_for_shape(array);
    if (array.size() != 1) {
      throw Error(MX_ERROR_VALUE, "[asscalar] expected one element, got shape " + array.shape().text());
    }
    if (!mx_on_host(array.context())) {
      const py::object values = py::handle(self).attr("asnumpy")();
      return values.attr("reshape")(py::tuple())[py::tuple()].cast<py::object>().release().ptr();
    }
    alignas(16) char element[16];
    read_values(array, element, py::object());
    return numpy_scalar(element, array.dtype());
  });
}

}  // namespace mx::nd
