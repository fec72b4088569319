// SPDX-License-Identifier: Apache-2.0
//
// Memory to and from NumPy and DLPack; views and copies.
#include "bindings.hpp"
#include "dlpack.hpp"

namespace mx::nd {
namespace {

using ContextPair = std::pair<int32_t, int32_t>;

constexpr size_t kLetGilGo = size_t{1} << 16;  // bytes from which a copy is worth it

void copy_memory(void* to, const void* from, size_t bytes) {
  if (bytes < kLetGilGo) {
    if (bytes != 0) std::memcpy(to, from, bytes);
    return;
  }
  const Released released;
  std::memcpy(to, from, bytes);
}

py::object new_array(Ref<Array> array) {
  return py::reinterpret_steal<py::object>(wrap({std::move(array), nullptr, 0}));
}

Array& array_of(const py::object& object) { return *expect_array(object.ptr(), "array")->array; }

py::object empty(const py::object& shape, int32_t dtype, ContextPair context) {
  return new_array(Array::create({context.first, context.second}, dtype, shape_of(shape)));
}

void check_matches(const py::array& values, int32_t dtype) {
  if ((values.flags() & py::array::c_style) == 0 ||
      static_cast<size_t>(values.itemsize()) != item_size(dtype)) {
    throw Error(MX_ERROR_DTYPE, "[NDArray] expected a C-contiguous NumPy array of the given type");
  }
}

// A copy; the array is new, so nobody has to wait.
py::object from_numpy(const py::array& values, int32_t dtype, ContextPair context) {
  check_matches(values, dtype);
  const Shape shape = shape_of(values.attr("shape"));
  const mx_context target{context.first, context.second};
  Ref<Array> host = Array::create(on_host(target) ? target : mx_context{MX_CPU, 0}, dtype, shape);
  copy_memory(host->allocate(), values.data(), host->bytes());
  if (on_host(target)) return new_array(std::move(host));
  Ref<Array> array = Array::create(target, dtype, shape);
  copy(*host, *array, origin());
  return new_array(std::move(array));
}

// An array on the memory of a NumPy array, which lives as long.
Ref<Array> shared(const py::array& values, int32_t dtype) {
  PyObject* owner = values.inc_ref().ptr();
  Ref<Chunk> chunk =
      Chunk::foreign({MX_CPU, 0}, const_cast<void*>(values.data()),
                     static_cast<size_t>(values.nbytes()), owner,
                     [](void* held) { Reaper::instance().drop(static_cast<PyObject*>(held)); });
  return Array::wrap(std::move(chunk), 0, dtype, shape_of(values.attr("shape")));
}

py::object share_numpy(const py::array& values, int32_t dtype) {
  check_matches(values, dtype);
  return new_array(shared(values, dtype));
}

py::array as_numpy(const py::object& object) {
  Array& array = array_of(object);
  wait(array, false);
  settle(array);
  const Shape& shape = array.shape();
  py::array made(numpy_dtype(array.dtype()),
                 std::vector<py::ssize_t>(shape.data(), shape.data() + shape.ndim()));
  if (on_host(array.context())) {
    copy_memory(made.mutable_data(), array.allocate(true), array.bytes());
  } else {
    const Ref<Array> host = shared(made, array.dtype());
    copy(array, *host, origin());
    wait(*host, false);
  }
  return made;
}

py::object view(const py::object& object, size_t offset, int32_t dtype, const py::object& shape) {
  Array& array = array_of(object);
  settle(array);
  Shape dims = shape_of(shape);
  const size_t bytes = byte_size(dims, dtype);
  if (offset > array.bytes() || bytes > array.bytes() - offset) {
    throw Error(MX_ERROR_SHAPE, "[NDArray] a view of shape " + dims.text() + " leaves the array");
  }
  return new_array(array.view(offset, dtype, std::move(dims)));
}

void copy_arrays(const py::object& from, const py::object& to) {
  settle(array_of(from));
  settle(array_of(to));
  copy(array_of(from), array_of(to), origin());
}

// ---- DLPack ----

struct Exported {
  DLManagedTensor tensor{};
  Ref<Array> array;
};

int32_t dlpack_device(mx_context context) {
  return context.type == MX_GPU ? kDLCUDA : context.type == MX_CPU_PINNED ? kDLCUDAHost : kDLCPU;
}

void delete_exported(DLManagedTensor* tensor) { delete static_cast<Exported*>(tensor->manager_ctx); }

void delete_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor") == 0) return;  // taken over by a consumer
  auto* tensor = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
  if (tensor != nullptr && tensor->deleter != nullptr) tensor->deleter(tensor);
}

py::object to_dlpack(const py::object& object, bool for_write) {
  Array& array = array_of(object);
  wait(array, for_write);
  settle(array);
  const DLDataType type = dlpack_type(array.dtype());
  auto exported = std::make_unique<Exported>();
  exported->array = Ref<Array>::share(&array);
  DLTensor& tensor = exported->tensor.dl_tensor;
  tensor.data = array.allocate(true);
  tensor.device = {dlpack_device(array.context()), array.context().id};
  tensor.ndim = array.shape().ndim();
  tensor.dtype = type;
  tensor.shape = const_cast<int64_t*>(array.shape().data());
  tensor.strides = nullptr;
  tensor.byte_offset = 0;
  exported->tensor.manager_ctx = exported.get();
  exported->tensor.deleter = &delete_exported;
  PyObject* capsule = owned(PyCapsule_New(&exported->tensor, "dltensor", &delete_capsule));
  exported.release();
  return py::reinterpret_steal<py::object>(capsule);
}

bool is_contiguous(const DLTensor& tensor) noexcept {
  if (tensor.strides == nullptr) return true;
  int64_t expected = 1;
  for (int32_t i = tensor.ndim; i-- > 0;) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

py::object from_dlpack(const py::object& capsule) {
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor") == 0) {
    throw Error(MX_ERROR_VALUE,
                "[from_dlpack] expected a capsule named 'dltensor' that nobody has consumed yet");
  }
  auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  const DLTensor& tensor = managed->dl_tensor;
  if (tensor.device.device_type != kDLCPU && tensor.device.device_type != kDLCUDAHost &&
      tensor.device.device_type != kDLCUDA) {
    throw Error(MX_ERROR_UNSUPPORTED, "[from_dlpack] device type " +
                                          std::to_string(tensor.device.device_type) +
                                          " is not known");
  }
  if (!is_contiguous(tensor)) {
    throw Error(MX_ERROR_VALUE, "[from_dlpack] expected a row-major contiguous tensor; copy it first");
  }
  const int32_t dtype = dtype_of(tensor.dtype);
  const Shape shape(tensor.ndim, tensor.shape);
  const mx_context context{tensor.device.device_type == kDLCUDA ? MX_GPU : MX_CPU,
                           tensor.device.device_id};
  const size_t bytes = byte_size(shape, dtype);
  Ref<Chunk> chunk = Chunk::foreign(
      context, static_cast<char*>(tensor.data) + tensor.byte_offset, bytes, managed, [](void* held) {
        auto* taken = static_cast<DLManagedTensor*>(held);
        if (taken->deleter == nullptr) return;
        const Gil gil;
        taken->deleter(taken);
      });
  PyCapsule_SetName(capsule.ptr(), "used_dltensor");
  return new_array(Array::wrap(std::move(chunk), 0, dtype, shape));
}

}  // namespace

void register_exchange(py::module_& module) {
  module.def("empty", [](const py::object& shape, int32_t dtype, ContextPair context) {
    return translated([&] { return empty(shape, dtype, context); });
  });
  module.def("from_numpy", [](const py::array& values, int32_t dtype, ContextPair context) {
    return translated([&] { return from_numpy(values, dtype, context); });
  });
  module.def("share_numpy", [](const py::array& values, int32_t dtype) {
    return translated([&] { return share_numpy(values, dtype); });
  });
  module.def("as_numpy",
             [](const py::object& array) { return translated([&] { return as_numpy(array); }); });
  module.def("view", [](const py::object& array, size_t offset, int32_t dtype,
                        const py::object& shape) {
    return translated([&] { return view(array, offset, dtype, shape); });
  });
  module.def("copy", [](const py::object& from, const py::object& to) {
    translated([&] { copy_arrays(from, to); });
  });
  module.def("to_dlpack", [](const py::object& array, bool for_write) {
    return translated([&] { return to_dlpack(array, for_write); });
  });
  module.def("from_dlpack", [](const py::object& capsule) {
    return translated([&] { return from_dlpack(capsule); });
  });
}

}  // namespace mx::nd
