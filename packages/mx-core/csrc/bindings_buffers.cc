// SPDX-License-Identifier: Apache-2.0
#include "buffers.hpp"

#include <cstring>
#include <string>

#include "tensor_size.hpp"

namespace mx::core {
namespace {

int32_t element_type(const char* format, Py_ssize_t size) {
  std::string text = format == nullptr ? "B" : format;
  if (!text.empty() && (text[0] == '@' || text[0] == '=' || text[0] == '<')) text.erase(0, 1);
  if (text == "Zf") return MX_COMPLEX64;
  if (text == "Zd") return MX_COMPLEX128;
  if (text.size() != 1) return MX_DTYPE_UNKNOWN;
  switch (text[0]) {
    case 'f': return MX_FLOAT32;
    case 'd': return MX_FLOAT64;
    case 'e': return MX_FLOAT16;
    case '?': return MX_BOOL;
    case 'b': case 'h': case 'i': case 'l': case 'q':
      return size == 1 ? MX_INT8 : size == 2 ? MX_INT16 : size == 4 ? MX_INT32 : MX_INT64;
    case 'B': case 'H': case 'I': case 'L': case 'Q':
      return size == 1 ? MX_UINT8 : size == 2 ? MX_UINT16 : size == 4 ? MX_UINT32 : MX_UINT64;
    default: return MX_DTYPE_UNKNOWN;
  }
}

int32_t stated_type(PyObject* pair) {
  const long code = PyLong_AsLong(PyTuple_GET_ITEM(pair, 1));
  if (code == -1 && PyErr_Occurred() != nullptr) throw PythonErrorSet{};
  return static_cast<int32_t>(code);
}

}  // namespace

Buffer::Buffer(PyObject* object, bool output, size_t index) {
  const std::string who = (output ? "output " : "input ") + std::to_string(index);
  int32_t dtype = MX_DTYPE_UNKNOWN;
  const bool pair = PyTuple_Check(object) && PyTuple_GET_SIZE(object) == 2;
  if (pair) {
    dtype = stated_type(object);
    object = PyTuple_GET_ITEM(object, 0);
  }
  const int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (output ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(object, &view_, flags) != 0) throw PythonErrorSet{};
  try {
    if (!pair) dtype = element_type(view_.format, view_.itemsize);
    if (item_size(dtype) != static_cast<size_t>(view_.itemsize)) {
      throw Error(MX_ERROR_DTYPE, "[run_plan] " + who + ": buffer format '" +
                                      (view_.format == nullptr ? "B" : view_.format) +
                                      "' is not an element type of " +
                                      std::to_string(view_.itemsize) + " bytes");
    }
    shape_.assign(view_.shape, view_.shape + view_.ndim);
    tensor_.bytes = tensor_bytes("run_plan", dtype, shape_);
    tensor_.data = view_.buf;
    if (!output && view_.readonly != 0) {
      copy_ = allocate(tensor_.bytes);
      if (tensor_.bytes != 0) std::memcpy(copy_.get(), view_.buf, tensor_.bytes);
      tensor_.data = copy_.get();
    }
    tensor_.shape = shape_.data();
    tensor_.context = {MX_CPU, 0};
    tensor_.dtype = dtype;
    tensor_.ndim = view_.ndim;
  } catch (...) {
    PyBuffer_Release(&view_);
    throw;
  }
}

}  // namespace mx::core
