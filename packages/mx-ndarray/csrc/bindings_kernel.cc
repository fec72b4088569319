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

class PythonKernel final : public ForeignKernel {
 public:
  explicit PythonKernel(py::object function) : function_(std::move(function)) {}
  ~PythonKernel() override { Reaper::instance().drop(function_.release().ptr()); }

  mx_failure* run(const Call& call, const Execution& execution) noexcept override {
    if (Py_IsInitialized() == 0) {
      return make_failure(MX_ERROR_SHUTDOWN, "Python has ended; a kernel written in it cannot run");
    }
    const Gil gil;
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
    const py::object about = hooks().reference_context(context.is_train != 0, scalars,
                                                       context.random_key, context.random_offset);
    const py::object returned = function_(about, inputs);
    const py::sequence results = py::reinterpret_borrow<py::sequence>(returned);
    const size_t expected = execution.n_outputs + call.mutated.size();
    if (PySequence_Check(returned.ptr()) == 0 || py::len(results) != expected) {
      throw Error(MX_ERROR, std::string("[") + call.name + "] the kernel returned " +
                                std::string(py::str(py::type::of(returned).attr("__name__"))) +
                                "; expected a sequence of " + std::to_string(expected) + " arrays");
    }
    for (uint32_t i = 0; i < execution.n_outputs; ++i) {
      store_output(call, execution, i, results[i], owner(execution.n_inputs + i));
    }
    for (size_t k = 0; k < call.mutated.size(); ++k) {
      const uint32_t i = call.mutated[k];
      store(call, view(execution.inputs[i], owner(i), true), results[execution.n_outputs + k],
            MX_REQ_WRITE);
    }
  }

  static void store_output(const Call& call, const Execution& execution, uint32_t i,
                           const py::object& result, Chunk* owner) {
    if (execution.req[i] == MX_REQ_NULL) return;
    if (!call.dynamic_output) {
      store(call, view(execution.outputs[i], owner, true), result, execution.req[i]);
      return;
    }
    const py::array values = py::array::ensure(result);
    if (!values) throw PythonErrorSet{};
    const std::vector<int64_t> shape(values.shape(), values.shape() + values.ndim());
    mx_tensor tensor{};
    mx_error error{};
    const mx_kernel_context* context = execution.context;
    check(context->alloc_output(context, i, static_cast<int32_t>(shape.size()), shape.data(),
                                &tensor, &error),
          error);
    store(call, view(tensor, owner, true), values, MX_REQ_WRITE);
  }

  static void store(const Call& call, const py::array& target, const py::object& result,
                    uint8_t req) {
    const py::object numpy = py::module_::import("numpy");
    const py::object values = numpy.attr("asarray")(result);
    if (!target.attr("shape").equal(values.attr("shape"))) {
      throw Error(MX_ERROR_SHAPE, std::string("[") + call.name + "] the kernel returned shape " +
                                      std::string(py::str(values.attr("shape"))) + ", expected " +
                                      std::string(py::str(target.attr("shape"))));
    }
    if (target.size() == 0) return;
    if (req == MX_REQ_ADD) {
      numpy.attr("add")(target, values, py::arg("out") = target, py::arg("casting") = "unsafe");
    } else {
      numpy.attr("copyto")(target, values, py::arg("casting") = "unsafe");
    }
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
