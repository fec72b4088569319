// SPDX-License-Identifier: Apache-2.0
//
// Kernels that are Python functions: over zero-copy NumPy views of main memory, or over arrays on a device.
#include "await_stream.hpp"
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

using Arrays = std::vector<Ref<Array>>;

// An array on memory of a device that a run has.  The engine knows nothing of it, so what is pushed on it has its own
// order, and must be done when the run ends, or `owner` is kept by it.
Ref<Array> lent(const mx_tensor& tensor, Chunk* owner) {
  const auto release = [](void* held) {
    if (held != nullptr) static_cast<Chunk*>(held)->release();
  };
  if (owner != nullptr) owner->retain();
  Ref<Chunk> chunk = Chunk::foreign(tensor.context, tensor.data, tensor.bytes, owner, release);
  return Array::wrap(std::move(chunk), 0, tensor.dtype, Shape(tensor.ndim, tensor.shape));
}

// What a run reads: arrays that may be kept, so without an owner a copy.
Ref<Array> to_read(const mx_tensor& tensor, Chunk* owner, void* stream) {
  if (tensor.data != nullptr && owner != nullptr) return lent(tensor, owner);
  Ref<Array> made = Array::create(tensor.context, tensor.dtype, Shape(tensor.ndim, tensor.shape));
  if (tensor.data == nullptr || tensor.bytes == 0) return made;  // only its shape and type may be read
  const mx_device_api* device = Runtime::instance().device(tensor.context.type);
  mx_error error{};
  check(device->copy(device->self, stream, made->allocate(), tensor.context, tensor.data, tensor.context, tensor.bytes,
                     &error),
        error);
  return made;
}

py::object array_object(Ref<Array> array) {
  return py::reinterpret_steal<py::object>(wrap({std::move(array), nullptr, 0}));
}

Chunk* owner_of(const Execution& execution, uint32_t i) noexcept {
  return execution.owners == nullptr ? nullptr : execution.owners[i];
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
    const bool on_host = mx_on_host(execution.context->context);
    Arrays inputs;
    if (!on_host) {
      if (mx_failure* failure = failing_or_passing([&] { inputs = inputs_on_device(execution); })) return failure;
    }
    const GilAcquire gil;
    try {
      if (on_host) {
        run_on_host(call, execution);
      } else {
        run_on_device(call, execution, std::move(inputs));
      }
      return nullptr;
    } catch (...) {
      raise_current();
      return take_python_failure();
    }
  }

 private:
  // Their values are there: the function may read them on any stream.
  static Arrays inputs_on_device(const Execution& execution) {
    const mx_kernel_context& context = *execution.context;
    Arrays inputs;
    for (uint32_t i = 0; i < execution.n_inputs; ++i) {
      inputs.push_back(to_read(execution.inputs[i], owner_of(execution, i), context.stream));
    }
    await_stream(context.context, context.stream);
    return inputs;
  }

  static py::tuple about(const mx_kernel_context& context) {
    py::tuple scalars(context.n_scalars);
    for (uint32_t i = 0; i < context.n_scalars; ++i) scalars[i] = context.scalars[i];
    return py::make_tuple(context.is_train != 0, scalars, context.random_key, context.random_offset);
  }

  void run_on_device(const Call& call, const Execution& execution, Arrays given) const {
    if (call.dynamic_output) {
      throw Error(MX_ERROR_UNSUPPORTED, std::string("[") + call.name +
                                            "] a kernel written in Python decides no shape on a device");
    }
    const mx_context place = execution.context->context;
    py::list inputs, targets;
    for (Ref<Array>& array : given) inputs.append(array_object(std::move(array)));
    for (uint32_t i = 0; i < execution.n_outputs; ++i) {
      if (execution.req[i] == MX_REQ_NULL) {
        targets.append(py::none());
        continue;
      }
      Chunk* owner = owner_of(execution, execution.n_inputs + i);
      targets.append(py::make_tuple(array_object(lent(execution.outputs[i], owner)), execution.req[i] == MX_REQ_ADD));
    }
    for (const uint32_t i : call.mutated) {
      targets.append(py::make_tuple(array_object(lent(execution.inputs[i], owner_of(execution, i))), false));
    }
    hooks().run_kernel(function_, call.name, about(*execution.context), inputs, targets,
                       py::make_tuple(place.type, place.id));
  }

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

  void run_on_host(const Call& call, const Execution& execution) const {
    const auto owner = [&](uint32_t i) { return owner_of(execution, i); };
    py::list inputs;
    for (uint32_t i = 0; i < execution.n_inputs; ++i) {
      inputs.append(view(execution.inputs[i], owner(i), false));
    }
    const py::tuple context = about(*execution.context);
    py::list targets;  // (where a result goes: an array, how to get one, or None; whether it is added)
    for (uint32_t i = 0; i < execution.n_outputs; ++i) {
      targets.append(py::make_tuple(target(call, execution, i, owner(execution.n_inputs + i)),
                                    execution.req[i] == MX_REQ_ADD));
    }
    for (const uint32_t i : call.mutated) {
      targets.append(py::make_tuple(view(execution.inputs[i], owner(i), true), false));
    }
    const py::str name(call.name);
    PyObject* arguments[] = {function_.ptr(), name.ptr(), context.ptr(), inputs.ptr(), targets.ptr()};
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
