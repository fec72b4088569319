// SPDX-License-Identifier: Apache-2.0
//
// mx_core._native: C kernel tables and plans, seen from Python.
#include "mx_core/pybind.hpp"
#include "mx_core/pybind_holder.hpp"

#include <pybind11/stl.h>

#include <optional>

#include "bindings_shape_table.hpp"
#include "bindings_slot_initializer.hpp"
#include "buffers.hpp"
#include "kernel_table.hpp"
#include "mx_core/device.h"
#include "mx_core/engine.h"
#include "mx_core/invoke.h"
#include "mx_core/storage.h"
#include "plan_interrupter.hpp"
#include "plan_runner.hpp"

namespace py = pybind11;

namespace mx::core {
namespace {

using Spec = std::pair<std::vector<int64_t>, int32_t>;

void release_plan(PyObject* capsule) {
  auto* plan = static_cast<mx_plan*>(PyCapsule_GetPointer(capsule, MX_PLAN_CAPSULE));
  if (plan != nullptr) plan->release(plan);
}

const void* table_of(const py::object& capsule, const char* name) {
  return capsule_pointer(capsule.ptr(), name, "mx-core");
}

std::vector<TensorSpec> to_specs(const std::vector<Spec>& pairs) {
  std::vector<TensorSpec> specs;
  specs.reserve(pairs.size());
  for (const auto& [shape, dtype] : pairs) specs.push_back({shape, dtype});
  return specs;
}

py::object prepare_native(const py::object& capsule, const std::string& op, const py::dict& params,
                          const std::vector<Spec>& inputs, const std::vector<Spec>& outputs,
                          std::pair<int32_t, int32_t> context, bool is_train) {
  return translated([&]() -> py::object {
    const auto* table = static_cast<const mx_kernel_api*>(table_of(capsule, MX_KERNEL_CAPSULE));
    Call call{op, {}, to_specs(inputs), to_specs(outputs), {context.first, context.second}, is_train};
    for (const auto& [name, text] : params) {
      call.params.emplace_back(name.cast<std::string>(), text.cast<std::string>());
    }
    mx_plan* plan = nullptr;
    {
      const GilRelease unlocked;
      plan = prepare(*table, call);
    }
    if (plan == nullptr) return py::none();
    PyObject* made = PyCapsule_New(plan, MX_PLAN_CAPSULE, release_plan);
    if (made == nullptr) {
      plan->release(plan);
      throw PythonErrorSet{};
    }
    return py::reinterpret_steal<py::object>(made);
  });
}

void check_plan_capsule(const py::object& capsule) {
  translated([&] { check_plan(*static_cast<const mx_plan*>(table_of(capsule, MX_PLAN_CAPSULE))); });
}

py::object take(const DynamicOutput* output) {
  if (output == nullptr) return py::none();
  if (output->memory == nullptr) throw Error(MX_ERROR, "[run_plan] an output got no shape");
  py::tuple shape(output->shape.size());
  for (size_t i = 0; i < output->shape.size(); ++i) shape[i] = output->shape[i];
  return py::make_tuple(shape, py::bytes(output->memory->data(), output->bytes));
}

// The buffers of a run.
struct Arguments {
  Arguments(const py::sequence& inputs, const py::sequence& outputs) {
    for (const py::handle item : inputs) {
      buffers.push_back(std::make_unique<Buffer>(item.ptr(), false, tensors.inputs.size()));
      tensors.inputs.push_back(buffers.back()->tensor());
    }
    for (const py::handle item : outputs) {
      dynamic.emplace_back();
      if (PyLong_Check(item.ptr())) {  // an element type: the kernel decides the shape
        dynamic.back() = std::make_unique<DynamicOutput>();
        dynamic.back()->dtype = item.cast<int32_t>();
        mx_tensor tensor{};
        tensor.dtype = dynamic.back()->dtype;
        tensor.ndim = -1;
        tensors.outputs.push_back(tensor);
        continue;
      }
      buffers.push_back(std::make_unique<Buffer>(item.ptr(), true, tensors.outputs.size()));
      tensors.outputs.push_back(buffers.back()->tensor());
    }
  }

  std::vector<std::unique_ptr<Buffer>> buffers;
  Tensors tensors;
  DynamicOutputs dynamic;
};

py::tuple run(const py::object& capsule, const py::sequence& inputs, const py::sequence& outputs,
              const std::vector<int>& req, bool is_train, std::vector<double> scalars,
              uint64_t random_key, uint64_t random_offset, uint32_t threads) {
  return translated([&] {
    const auto* plan = static_cast<const mx_plan*>(table_of(capsule, MX_PLAN_CAPSULE));
    if (req.size() != outputs.size()) {
      throw Error(MX_ERROR_VALUE, "[run_plan] req: expected " + std::to_string(outputs.size()) +
                                      " requests, got " + std::to_string(req.size()));
    }
    const Arguments arguments(inputs, outputs);
    std::vector<uint8_t> requests;
    for (const int r : req) {
      if (r < MX_REQ_NULL || r > MX_REQ_ADD) {
        throw Error(MX_ERROR_VALUE, "[run_plan] req: expected 0 to 3, got " + std::to_string(r));
      }
      requests.push_back(static_cast<uint8_t>(r));
    }
    const RunOptions options{is_train, std::move(scalars), random_key, random_offset, threads};
    std::string damage;
    {
      const GilRelease unlocked;
      damage = run_plan(*plan, arguments.tensors, requests, arguments.dynamic, options);
    }
    py::list made;
    for (const auto& output : arguments.dynamic) made.append(take(output.get()));
    return py::make_tuple(made, damage);
  });
}

using Arrays = std::pair<py::sequence, py::sequence>;

py::tuple interrupt(const py::object& capsule, const Arrays& stopped, const Arrays& between, bool is_train,
                    std::vector<double> scalars, uint64_t random_key, uint32_t rounds, uint32_t limit,
                    uint32_t patience) {
  return translated([&] {
    const auto* plan = static_cast<const mx_plan*>(table_of(capsule, MX_PLAN_CAPSULE));
    const Arguments one(stopped.first, stopped.second), other(between.first, between.second);
    const RunOptions options{is_train, std::move(scalars), random_key, 0, 1};
    const InterruptOptions interrupts{rounds, std::chrono::milliseconds(limit), std::chrono::milliseconds(patience)};
    Interrupted result;
    {
      const GilRelease unlocked;
      result = interrupt_plan(*plan, one.tensors, other.tensors, options, interrupts);
    }
    py::list differing;
    for (const Differing& found : result.differing) {
      py::list tensors;
      for (const auto& bytes : found.tensors)
        tensors.append(py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
      differing.append(py::make_tuple(found.interrupted, tensors));
    }
    return py::make_tuple(result.rounds, differing);
  });
}

// Whether a function runs that a frame has called.
bool is_calling(PyObject* frame) {
  PyFrameObject* top = PyEval_GetFrame();
  if (top == nullptr || reinterpret_cast<PyObject*>(top) == frame) return false;
  auto at = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(top));
  while (at && at.ptr() != frame) {
    at = py::reinterpret_steal<py::object>(
        reinterpret_cast<PyObject*>(PyFrame_GetBack(reinterpret_cast<PyFrameObject*>(at.ptr()))));
  }
  return static_cast<bool>(at);
}

// Of a frame and an error; waits until the function that the frame has called is done.
int raise_in_frame(void* pending) noexcept {
  auto* both = static_cast<PyObject*>(pending);
  if (is_calling(PyTuple_GET_ITEM(both, 0)) && Py_AddPendingCall(raise_in_frame, both) == 0) return 0;
  PyObject* error = PyTuple_GET_ITEM(both, 1);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
  Py_DECREF(both);
  return -1;
}

void raise_after_call(py::object frame, py::object error) {
  if (PyExceptionInstance_Check(error.ptr()) == 0) throw py::type_error("error: expected an exception");
  py::tuple both = py::make_tuple(std::move(frame), std::move(error));
  if (Py_AddPendingCall(raise_in_frame, both.ptr()) == 0) {
    both.release();
  } else {
    PyErr_SetInterrupt();  // too many wait
  }
}

// Calls a function until it returns, and tells what it has raised. For functions that CPython calls and whose errors it
// would print: Ctrl-C ends the function alone, and no Python runs around it.
constexpr int kMostCalls = 100;
py::cpp_function surely(const py::function& function, const py::function& tell) {
  return py::cpp_function([function, tell] {
    for (int i = 0; i < kMostCalls; ++i) {
      try {
        function();
        return;
      } catch (py::error_already_set& error) {
        tell(error.value());
      }
    }
  });
}

// Methods of a class whose `with` blocks put their object last in the tuple `entered.stack`, which is a thread's own. They
// are native, so that Ctrl-C comes before or after a change, with the block's end.
py::object enter_block(const py::object& self) {
  const py::object entered = self.attr("entered");
  py::setattr(entered, "stack", py::tuple(entered.attr("stack")) + py::make_tuple(self));
  return self;
}

void leave_block(const py::object& self, const py::args&) {
  const py::object entered = self.attr("entered");
  const py::tuple stack(entered.attr("stack"));
  if (!stack.empty()) py::setattr(entered, "stack", stack[py::slice(0, static_cast<py::ssize_t>(stack.size()) - 1, 1)]);
}

py::object method(const py::object& function) {
  return py::reinterpret_steal<py::object>(PyInstanceMethod_New(function.ptr()));
}

py::object owned(PyObject* made) {
  if (made == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(made);
}

py::object slot_initializer(const py::type& of, const py::tuple& names, const py::tuple& defaults) {
  return owned(make_slot_initializer(reinterpret_cast<PyTypeObject*>(of.ptr()), names.ptr(), defaults.ptr()));
}

// None for what is no capsule, "" for a capsule without a name.
std::optional<std::string> capsule_name(const py::object& object) {
  if (!PyCapsule_CheckExact(object.ptr())) return std::nullopt;
  const char* name = PyCapsule_GetName(object.ptr());
  return name == nullptr ? "" : name;
}

py::tuple table_head(const py::object& capsule, const std::string& name) {
  return translated([&] {
    const auto* head = static_cast<const mx_table_head*>(table_of(capsule, name.c_str()));
    return py::make_tuple(head->size, head->major, head->minor);
  });
}

void check_table(const py::object& capsule, const std::string& consumer) {
  translated([&] {
    PyObject* object = capsule.ptr();
    const std::string interface = capsule_name(capsule).value_or("");
    const char* name = interface.c_str();
    const char* who = consumer.c_str();
    if (interface == MX_ENGINE_CAPSULE) {
      import_plugin_table<mx_engine_api>(object, name, MX_ENGINE_MAJOR, MX_ENGINE_API_SIZE_1_0, who);
    } else if (interface == MX_STORAGE_CAPSULE) {
      import_table<mx_storage_api>(object, name, MX_STORAGE_MAJOR, MX_STORAGE_MINOR, who);
    } else if (interface == MX_SHARED_CAPSULE) {
      import_table<mx_shared_api>(object, name, MX_SHARED_MAJOR, MX_SHARED_MINOR, who);
    } else if (interface == MX_RESOURCE_CAPSULE) {
      import_table<mx_resource_api>(object, name, MX_RESOURCE_MAJOR, MX_RESOURCE_MINOR, who);
    } else if (interface == MX_DEVICE_CAPSULE) {
      import_plugin_table<mx_device_api>(object, name, MX_DEVICE_MAJOR, MX_DEVICE_SIZE_1_0, who);
    } else if (interface == MX_INVOKE_CAPSULE) {
      import_table<mx_invoke_api>(object, name, MX_INVOKE_MAJOR, MX_INVOKE_MINOR, who);
    } else if (interface == MX_KERNEL_CAPSULE) {
      import_plugin_table<mx_kernel_api>(object, name, MX_KERNEL_MAJOR, MX_KERNEL_SIZE_1_0, who);
    } else {
      throw Error(MX_ERROR_ABI, "[" + consumer + "] not a capsule of an mx interface: '" + interface + "'");
    }
  });
}

}  // namespace
}  // namespace mx::core

PYBIND11_MODULE(_native, m, pybind11::mod_gil_not_used()) {
  using namespace pybind11::literals;
  m.doc() = "C kernel tables and plans.";
  m.def("prepare_native", &mx::core::prepare_native, "capsule"_a, "op_name"_a, "params"_a, "inputs"_a,
        "outputs"_a, "context"_a, "is_train"_a);
  m.def("check_plan", &mx::core::check_plan_capsule, "capsule"_a);
  m.def("run_plan", &mx::core::run, "plan"_a, "inputs"_a, "outputs"_a, "req"_a, "is_train"_a = false,
        "scalars"_a = std::vector<double>{}, "random_key"_a = 0, "random_offset"_a = 0, "threads"_a = 1);
  m.def("interrupt_plan", &mx::core::interrupt, "plan"_a, "stopped"_a, "between"_a, "is_train"_a, "scalars"_a,
        "random_key"_a, "rounds"_a, "limit"_a, "patience"_a);
  m.def("raise_after_call", &mx::core::raise_after_call, "frame"_a, "error"_a);
  m.def("surely", &mx::core::surely, "function"_a, "tell"_a);
  m.def("enter_block", &mx::core::enter_block, "self"_a);
  m.def("leave_block", &mx::core::leave_block, "self"_a);
  m.def("method", &mx::core::method, "function"_a);
  m.add_object("ShapeTable", mx::core::owned(mx::core::make_shape_table_type()));
  m.def("slot_initializer", &mx::core::slot_initializer, "of"_a, "names"_a, "defaults"_a);
  m.def("capsule_name", &mx::core::capsule_name, "object"_a);
  m.def("table_head", &mx::core::table_head, "capsule"_a, "name"_a);
  m.def("check_table", &mx::core::check_table, "capsule"_a, "consumer"_a);
  mx::refuse_uninitialised(m);
}
