// SPDX-License-Identifier: Apache-2.0
//
// Memory shared with other libraries through DLPack.
#include "await_stream.hpp"
#include "bindings.hpp"
#include "dlpack.hpp"

namespace mx::nd {
namespace {

template <class Managed>
struct Exported {
  Managed tensor{};
  Ref<Array> array;
  std::vector<int64_t> strides;
};

template <class Managed>
void delete_capsule(PyObject* capsule) {
  const char* name = DLCapsule<Managed>::kName;
  if (PyCapsule_IsValid(capsule, name) == 0) return;  // taken over by a consumer
  auto* tensor = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (tensor != nullptr && tensor->deleter != nullptr) tensor->deleter(tensor);
}

template <class Managed>
py::object exported(Array& array, uint64_t flags) {
  auto made = std::make_unique<Exported<Managed>>();
  made->array = Ref<Array>::share(&array);
  DLTensor& tensor = made->tensor.dl_tensor;
  tensor.data = array.allocate(true);
  tensor.device = dlpack_device(array.context());
  tensor.ndim = array.shape().ndim();
  tensor.dtype = dlpack_type(array.dtype());
  tensor.shape = const_cast<int64_t*>(array.shape().data());
  made->strides.resize(static_cast<size_t>(tensor.ndim));  // from DLPack 1.2 on they may be relied on
  int64_t step = 1;
  for (int32_t i = tensor.ndim; i-- > 0; step *= tensor.shape[i]) made->strides[i] = step;
  tensor.strides = made->strides.data();
  if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>) {
    made->tensor.version = kDLPackVersion;
    made->tensor.flags = flags;
  }
  made->tensor.manager_ctx = made.get();
  made->tensor.deleter = [](Managed* self) {
    delete static_cast<Exported<Managed>*>(self->manager_ctx);
  };
  PyObject* capsule = owned(
      PyCapsule_New(&made->tensor, DLCapsule<Managed>::kName, &delete_capsule<Managed>));
  made.release();
  return py::reinterpret_steal<py::object>(capsule);
}

py::object to_dlpack(const py::object& object, bool for_write, bool versioned, bool copied) {
  PyArray* self = expect_array(object.ptr(), "[to_dlpack] array");
  Array& array = *self->array;
  wait(array, for_write);
  wait_for_shape(array);
  const uint64_t flags = (self->writable ? 0 : kDLReadOnly) | (copied ? kDLCopied : 0);
  return versioned ? exported<DLManagedTensorVersioned>(array, flags)
                   : exported<DLManagedTensor>(array, flags);
}

// Gives a taken tensor back to the library it came from.
template <class Managed>
void give_back(void* held) {
  auto* taken = static_cast<Managed*>(held);
  if (taken->deleter == nullptr) return;
  const GilAcquire gil;
  taken->deleter(taken);
}

// Waits for what the producer had on the stream that it was given.
void wait_for_producer(mx_context context) {
  const mx_device_api* device = Runtime::instance().device(context.type);
  mx_error error{};
  void* stream = nullptr;
  check(device->stream(device->self, context.id, 0, &stream, &error), error);
  const GilRelease released;
  await_stream(context, stream);
}

// A row-major copy of main memory in any order.
py::object copied(const DLTensor& tensor, int32_t dtype, const char* data) {
  const auto item = static_cast<py::ssize_t>(item_size(dtype));
  const std::vector<py::ssize_t> shape(tensor.shape, tensor.shape + tensor.ndim);
  std::vector<py::ssize_t> strides;
  for (int32_t i = 0; i < tensor.ndim; ++i) strides.push_back(tensor.strides[i] * item);
  const py::capsule nobody(data, [](void*) {});  // the tensor lives longer than this view
  const py::array lent(numpy_dtype(dtype), shape, strides, data, nobody);
  return py::module_::import("numpy").attr("array")(lent, py::arg("order") = "C");
}

template <class Managed>
py::object taken(const py::object& capsule, uint64_t flags) {
  auto* managed = static_cast<Managed*>(
      PyCapsule_GetPointer(capsule.ptr(), DLCapsule<Managed>::kName));
  const DLTensor& tensor = managed->dl_tensor;
  const mx_context context = context_of(tensor.device);
  const int32_t dtype = dtype_of(tensor.dtype);
  const Shape shape(tensor.ndim, tensor.shape);
  const size_t bytes = byte_size(shape, dtype);
  char* data = static_cast<char*>(tensor.data) + (bytes == 0 ? 0 : tensor.byte_offset);
  const bool aligned = reinterpret_cast<uintptr_t>(data) % item_size(dtype) == 0;
  if (!is_contiguous(tensor) || !aligned) {
    if (!mx_on_host(context) || tensor.strides == nullptr) {
      throw Error(MX_ERROR_VALUE,
                  "[from_dlpack] expected a row-major contiguous tensor; copy it first");
    }
    return copied(tensor, dtype, data);
  }
  if (!mx_on_host(context)) wait_for_producer(context);
  PyCapsule_SetName(capsule.ptr(), DLCapsule<Managed>::kUsed);  // given away from here on, also to what fails
  Ref<Chunk> chunk = Chunk::foreign(context, data, bytes, managed, &give_back<Managed>,
                                    (flags & kDLReadOnly) != 0);
  return py::reinterpret_steal<py::object>(
      wrap({Array::wrap(std::move(chunk), 0, dtype, shape), nullptr, 0}));
}

// An array on the capsule's memory, or a NumPy copy where no array can lie on it.
py::object from_dlpack(const py::object& capsule) {
  if (PyCapsule_IsValid(capsule.ptr(), DLCapsule<DLManagedTensor>::kName) != 0) {
    return taken<DLManagedTensor>(capsule, 0);
  }
  const char* versioned = DLCapsule<DLManagedTensorVersioned>::kName;
  if (PyCapsule_IsValid(capsule.ptr(), versioned) == 0) {
    throw Error(MX_ERROR_VALUE,
                "[from_dlpack] expected a capsule named 'dltensor' or 'dltensor_versioned' that "
                "nobody has consumed yet");
  }
  auto* managed =
      static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule.ptr(), versioned));
  if (managed->version.major != kDLPackVersion.major) {
    throw Error(MX_ERROR_UNSUPPORTED, "[from_dlpack] expected DLPack 1.x, got " +
                                          std::to_string(managed->version.major) + "." +
                                          std::to_string(managed->version.minor));
  }
  return taken<DLManagedTensorVersioned>(capsule, managed->flags);
}

std::pair<int32_t, int32_t> device_of(const py::object& object) {
  const DLDevice device =
      dlpack_device(expect_array(object.ptr(), "[to_dlpack] array")->array->context());
  return {device.device_type, device.device_id};
}

// The stream that operators of a GPU run on, for producers to synchronise with.
uintptr_t stream_of(int32_t id) {
  const mx_device_api* device = Runtime::instance().device(MX_GPU);
  mx_error error{};
  void* stream = nullptr;
  check(device->stream(device->self, id, 0, &stream, &error), error);
  return reinterpret_cast<uintptr_t>(stream);
}

}  // namespace

void register_dlpack(py::module_& module) {
  module.def("to_dlpack", [](const py::object& array, bool for_write, bool versioned, bool copied) {
    return translated([&] { return to_dlpack(array, for_write, versioned, copied); });
  });
  module.def("from_dlpack", [](const py::object& capsule) {
    return translated([&] { return from_dlpack(capsule); });
  });
  module.def("dlpack_device", [](const py::object& array) {
    return translated([&] { return device_of(array); });
  });
  module.def("gpu_stream", [](int32_t id) { return translated([&] { return stream_of(id); }); });
}

}  // namespace mx::nd
