// SPDX-License-Identifier: Apache-2.0
//
// Memory to and from NumPy; views and copies.
#include <algorithm>
#include <cstring>

#include "bindings.hpp"
#include "interpreter_lock.hpp"

namespace mx::nd {
namespace {

using ContextPair = std::pair<int32_t, int32_t>;

constexpr size_t kUntilSignals = size_t{8} << 20;  // bytes copied between two looks for Ctrl-C

void copy_memory(void* to, const void* from, size_t bytes) {
  if (bytes < kLetGilGo) {
    if (bytes != 0) std::memcpy(to, from, bytes);
    return;
  }
  for (size_t done = 0; done < bytes; done += kUntilSignals) {
    if (done != 0 && PyErr_CheckSignals() != 0) throw PythonErrorSet{};
    const GilRelease released;
    std::memcpy(static_cast<char*>(to) + done, static_cast<const char*>(from) + done,
                std::min(kUntilSignals, bytes - done));
  }
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
  Ref<Array> host = Array::create(mx_on_host(target) ? target : mx_context{MX_CPU, 0}, dtype, shape);
  copy_memory(host->allocate(), values.data(), host->bytes());
  if (mx_on_host(target)) return new_array(std::move(host));
  Ref<Array> array = Array::create(target, dtype, shape);
  copy(*host, *array, origin());
  return new_array(std::move(array));
}

// An array on the memory of a NumPy array, which lives as long.
Ref<Array> shared(const py::array& values, int32_t dtype, mx_context context = {MX_CPU, 0}) {
  PyObject* owner = values.inc_ref().ptr();
  Ref<Chunk> chunk =
      Chunk::foreign(context, const_cast<void*>(values.data()),
                     static_cast<size_t>(values.nbytes()), owner,
                     [](void* held) { Reaper::instance().drop(static_cast<PyObject*>(held)); });
  return Array::wrap(std::move(chunk), 0, dtype, shape_of(values.attr("shape")));
}

py::object share_numpy(const py::array& values, int32_t dtype, ContextPair context) {
  check_matches(values, dtype);
  const mx_context place{context.first, context.second};
  if (!mx_on_host(place)) throw Error(MX_ERROR_VALUE, "[NDArray] NumPy's memory is the host's");
  return new_array(shared(values, dtype, place));
}

// Extents of an empty array may multiply to more than NumPy has addresses for.
py::array new_numpy(const Shape& shape, int32_t dtype) {
  try {
    return {numpy_dtype(dtype), std::vector<py::ssize_t>(shape.data(), shape.data() + shape.ndim())};
  } catch (py::error_already_set& error) {
    if (error.matches(PyExc_MemoryError)) {
      throw Error(MX_ERROR_MEMORY, "[asnumpy] no memory for a NumPy array of shape " + shape.text() + ", " +
                                       std::to_string(byte_size(shape, dtype)) + " bytes");
    }
    if (!error.matches(PyExc_ValueError)) throw;
    throw Error(MX_ERROR_SHAPE, "[asnumpy] NumPy has no array of shape " + shape.text());
  }
}

// For the values of an array; one that could not be computed raises its own failure, not that of its copy.
py::array numpy_for(Array& array) {
  try {
    return new_numpy(array.shape(), array.dtype());
  } catch (const Error&) {
    wait(array, false);
    throw;
  }
}

// The copy is pushed before anything is waited for, so that nobody's later writes are waited for.
// Refuses what an operation of this thread would wait for itself for: the copy would come after the operation.
void refuse_own(const mx_engine_api* engine, Array& array) {
  mx_error error{};
  mx_failure* failure = nullptr;
  const int32_t status = engine->wait_for_variable(engine->self, array.variable(), 0, 0, &failure, &error);
  raise_if_failed(FailureRef(failure));
  if (status != MX_OK && status != MX_TIMEOUT) throw Error(static_cast<mx_status>(status), error.message);
}

void read_from_device(Array& array, const py::array& made) {
  const mx_engine_api* engine = Runtime::instance().engine();
  if (engine->variable_ready(engine->self, array.variable(), 0) != 0) {
    wait(array, false);  // raises, or warns
  } else {
    refuse_own(engine, array);
  }
  FailureRef left_out;
  do {  // again when it was left out for a failure that another thread has been told
    const Ref<Array> host = shared(made, array.dtype());
    copy(array, *host, origin());
    wait(*host, false);
    left_out = FailureRef(engine->variable_failure(engine->self, host->variable()));
  } while (left_out);
}

py::array as_numpy(const py::object& object) {
  Array& array = array_of(object);
  wait_for_shape(array);
  py::array made = numpy_for(array);
  if (mx_on_host(array.context())) {
    read_values(array, made.mutable_data(), made);
  } else {
    read_from_device(array, made);
  }
  return made;
}

py::object view(const py::object& object, size_t offset, int32_t dtype, const py::object& shape) {
  Array& array = array_of(object);
  wait_for_shape(array);
  Shape dims = shape_of(shape);
  const size_t bytes = byte_size(dims, dtype);
  if (offset > array.bytes() || bytes > array.bytes() - offset) {
    throw Error(MX_ERROR_SHAPE, "[NDArray] a view of shape " + dims.text() + " leaves the array");
  }
  return new_array(array.view(offset, dtype, std::move(dims)));
}

void copy_arrays(const py::object& from, const py::object& to) {
  wait_for_shape(array_of(from));
  wait_for_shape(array_of(to));
  copy(array_of(from), array_of(to), origin());
}

}  // namespace

void register_exchange(py::module_& module) {
  module.def("empty", [](const py::object& shape, int32_t dtype, ContextPair context) {
    return translated([&] { return empty(shape, dtype, context); });
  });
  module.def("from_numpy", [](const py::array& values, int32_t dtype, ContextPair context) {
    return translated([&] { return from_numpy(values, dtype, context); });
  });
  module.def("share_numpy", [](const py::array& values, int32_t dtype, ContextPair context) {
    return translated([&] { return share_numpy(values, dtype, context); });
  }, py::arg("values"), py::arg("dtype"), py::arg("context") = ContextPair{MX_CPU, 0});
  module.def("as_numpy",
             [](const py::object& array) { return translated([&] { return as_numpy(array); }); });
  module.def("view", [](const py::object& array, size_t offset, int32_t dtype,
                        const py::object& shape) {
    return translated([&] { return view(array, offset, dtype, shape); });
  });
  module.def("address", [](const py::object& array) {
    return translated([&] { return reinterpret_cast<uintptr_t>(array_of(array).allocate(true)); });
  });
  module.def("copy", [](const py::object& from, const py::object& to) {
    translated([&] { copy_arrays(from, to); });
  });
}

}  // namespace mx::nd
