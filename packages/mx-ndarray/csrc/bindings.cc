// SPDX-License-Identifier: Apache-2.0
//
// The extension module: hooks into Python, services, tables.
#include "bindings.hpp"
#include "bindings_native_function.hpp"
#include "interpreter_lock.hpp"
#include "mx_core/pybind_holder.hpp"
#include "table.hpp"

namespace mx::nd {

Hooks& hooks() noexcept {
  static auto* hooks = new Hooks;  // leaked: holds Python objects for the life of the process
  return *hooks;
}

namespace {

// Asks mx_core.services.  A Python error travels in a FailureError: an operation of the engine, which may
// run on any thread, is what asks.
class Services final : public ServiceLoader {
 public:
  const mx_engine_api* engine() override {
    const mx_engine_api* table = load<mx_engine_api>("engine", -1, [](PyObject* capsule) {
      return import_plugin_table<mx_engine_api>(capsule, MX_ENGINE_CAPSULE, MX_ENGINE_MAJOR, MX_ENGINE_API_SIZE_1_0,
                                                kWho);
    });
    const GilAcquire gil;
    PyObject* watched = PyObject_CallNoArgs(hooks().watch_forks.function.ptr());
    if (watched == nullptr) PyErr_WriteUnraisable(hooks().watch_forks.function.ptr());
    Py_XDECREF(watched);
    return table;
  }
  const mx_storage_api* storage(int32_t type) override {
    return load<mx_storage_api>("storage", type, [](PyObject* capsule) {
      return import_table<mx_storage_api>(capsule, MX_STORAGE_CAPSULE, MX_STORAGE_MAJOR, MX_STORAGE_MINOR,
                                          kWho);
    });
  }
  const mx_resource_api* random(int32_t type) override {
    return load<mx_resource_api>("random", type, [](PyObject* capsule) {
      return import_table<mx_resource_api>(capsule, MX_RESOURCE_CAPSULE, MX_RESOURCE_MAJOR,
                                           MX_RESOURCE_MINOR, kWho);
    });
  }
  const mx_device_api* device(int32_t type) override {
    return load<mx_device_api>("device", type, [](PyObject* capsule) {
      return import_plugin_table<mx_device_api>(capsule, MX_DEVICE_CAPSULE, MX_DEVICE_MAJOR,
                                                MX_DEVICE_SIZE_1_0, kWho);
    });
  }
  std::string device_name(int32_t type) override {
    const GilAcquire gil;
    return hooks().device_name(type).cast<std::string>();
  }

 private:
  static constexpr const char* kWho = "mx-ndarray";

  // `import` makes a table of a capsule or throws.
  template <class T>
  static const T* load(const char* service, int32_t type, const T* (*import)(PyObject*)) {
    const GilAcquire gil;
    const T* table = nullptr;
    try {
      const py::object ask = hooks().services.attr(service);
      py::object provider = type < 0 ? ask() : ask(hooks().device_name(type));
      table = import(provider.attr("capsule").ptr());
      provider.release();  // services live as long as the process
    } catch (...) {
      raise_current();
    }
    if (table == nullptr) throw FailureError{FailureRef(take_python_failure())};
    return table;
  }
};

class Gil final : public InterpreterLock {
 public:
  void* leave() noexcept override {
    return PyGILState_Check() != 0 ? static_cast<void*>(PyEval_SaveThread()) : nullptr;
  }
  void enter(void* token) noexcept override {
    if (token != nullptr) PyEval_RestoreThread(static_cast<PyThreadState*>(token));
  }
};

void configure(const py::object& given) {
  Hooks& h = hooks();
  h.array_class =
      reinterpret_cast<PyTypeObject*>(py::object(given.attr("array_class")).release().ptr());
  h.prepare.function = given.attr("prepare");
  h.bind.function = given.attr("bind");
  h.scalar_params.function = given.attr("scalar_params");
  h.shaped_params.function = given.attr("shaped_params");
  h.progression_params.function = given.attr("progression_params");
  h.part_params.function = given.attr("part_params");
  h.operand.function = given.attr("operand");
  h.integer_operand.function = given.attr("integer_operand");
  h.get_item.function = given.attr("get_item");
  h.set_item.function = given.attr("set_item");
  h.reshape.function = given.attr("reshape");
  h.gradient.function = given.attr("gradient");
  h.find.function = given.attr("find");
  h.context.function = given.attr("context");
  h.context_class = given.attr("context_class");
  h.entered_contexts = given.attr("entered_contexts");
  h.dtype_codes = given.attr("dtype_codes");
  h.services = given.attr("services");
  h.run_kernel.function = given.attr("run_kernel");
  h.unsafe_read_warning = given.attr("unsafe_read_warning");
  h.device_name.function = given.attr("device_name");
  h.watch_forks.function = given.attr("watch_forks");
  h.package_folder = given.attr("package_folder").cast<std::string>();
  h.sticky_errors = given.attr("sticky_errors").cast<bool>();
}

}  // namespace

PYBIND11_MODULE(_core, module, pybind11::mod_gil_not_used()) {
  module.doc() = "Arrays, invocation and the autograd tape, natively.";
  Runtime::instance().set_loader(new Services);
  interpreter_lock_state().lock = new Gil;
  module.def("configure", &configure, py::arg("hooks"), "Installs the Python side; called once.");
  module.def(
      "invoke_capsule",
      [] {
        return py::capsule(invoke_table(), MX_INVOKE_CAPSULE);
      },
      "The table mx.invoke.v1.");
  module.def(
      "set_forking", [](bool on) { interpreter_lock_state().forking.store(on); }, py::arg("on"),
      "Whether a thread of this process is about to fork.");
  module.def(
      "set_memory_scope", [](const std::string& prefix) { translated([&] { set_memory_scope(prefix); }); },
      py::arg("prefix"), "What comes before the names of memory that this thread's new arrays take.");
  register_array(module);
  register_exchange(module);
  register_dlpack(module);
  register_operator(module);
  register_function(module);
  register_native_function(module);
  register_autograd(module);
  register_scope(module);
  register_custom(module);
  register_several(module);
  mx::refuse_uninitialised(module);
}

}  // namespace mx::nd
