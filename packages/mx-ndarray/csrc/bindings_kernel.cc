// SPDX-License-Identifier: Apache-2.0
//
// Kernels that are Python functions over zero-copy NumPy views.
#include "bindings.hpp"

namespace mx::nd {
namespace {

// What keeps the memory of a view alive: the chunk, when there is one.
py::object owner_of(Chunk* chunk) {
  if (chunk == nullptr) return py::none();
  chunk->retain();
  return py::capsule(chunk, [](void* held) { static_cast<Chunk*>(held)->release(); });
}

mx_failure* ended() noexcept {
  return make_failure(MX_ERROR_SHUTDOWN, "Python has ended; a kernel written in it cannot run");
}

class PythonKernel final : public ForeignKernel {
 public:
  explicit PythonKernel(py::object function) : function_(std::move(function)) {}
  ~PythonKernel() override {
    PyObject* function = function_.release().ptr();
    if (!interpreter_ends()) Reaper::instance().drop(function);
  }

  mx_failure* run(const Call& call, const Execution& execution) noexcept override {
    if (interpreter_ends()) return ended();
    const GilAcquire gil;
    try {
      run_locked(call, execution);
      return nullptr;
    } catch (...) {
      raise_current();
      return take_python_failure();
    }
  }

 private:
  static py::array view(const mx_tensor& tensor, Chunk* owner, bool writable) {
    const py::dtype dtype = numpy_dtype(tensor.dtype);
    const std::vector<py::ssize_t> shape(tensor.shape, tensor.shape + tensor.ndim);
    if (tensor.data == nullptr) {  // empty, or only its shape and type may be read
      return py::module_::import("numpy").attr("broadcast_to")(
          py::array(dtype, std::vector<py::ssize_t>()), shape);
    }
    py::array made(dtype, shape, tensor.data, owner_of(owner));
    if (!writable) {
      py::detail::array_proxy(made.ptr())->flags &= ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
    }
    return made;
  }

  void run_locked(const Call& call, const Execution& execution) const {
    const auto owner = [&](uint32_t i) {
      return execution.owners == nullptr ? nullptr : execution.owners[i];
    };
    py::list inputs;
    for (uint32_t i = 0; i < execution.n_inputs; ++i) {
      inputs.append(view(execution.inputs[i], owner(i), false));
    }
    const mx_kernel_context& context = *execution.context;
    py::tuple scalars(context.n_scalars);
    for (uint32_t i = 0; i < context.n_scalars; ++i) scalars[i] = context.scalars[i];
    const py::tuple about = py::make_tuple(context.is_train != 0, scalars, context.random_key,
                                           context.random_offset);
    py::list targets;  // (where a result goes: an array, how to get one, or None; whether it is added)
    for (uint32_t i = 0; i < execution.n_outputs; ++i) {
      targets.append(py::make_tuple(target(call, execution, i, owner(execution.n_inputs + i)),
                                    execution.req[i] == MX_REQ_ADD));
    }
    for (const uint32_t i : call.mutated) {
      targets.append(py::make_tuple(view(execution.inputs[i], owner(i), true), false));
    }
    const py::str name(call.name);
    PyObject* arguments[] = {function_.ptr(), name.ptr(), about.ptr(), inputs.ptr(), targets.ptr()};
    Py_DECREF(owned(PyObject_Vectorcall(hooks().run_kernel.function.ptr(), arguments, 5, nullptr)));
  }

  static py::object target(const Call& call, const Execution& execution, uint32_t i, Chunk* owner) {
    if (execution.req[i] == MX_REQ_NULL) return py::none();
    if (!call.dynamic_output) return view(execution.outputs[i], owner, true);
    return py::cpp_function([&execution, i, owner](const std::vector<int64_t>& shape) {
      mx_tensor tensor{};
      mx_error error{};
      const mx_kernel_context* context = execution.context;
      return translated([&] {
        check(context->alloc_output(context, i, static_cast<int32_t>(shape.size()), shape.data(),
                                    &tensor, &error),
              error);
        return view(tensor, owner, true);
      });
    });
  }

  py::object function_;
};

}  // namespace

std::unique_ptr<ForeignKernel> python_kernel(py::object function) {
  if (PyCallable_Check(function.ptr()) == 0) {
    throw Error(MX_ERROR_DTYPE, "a kernel must be a plan or a function");
  }
  return std::make_unique<PythonKernel>(std::move(function));
}

}  // namespace mx::nd
