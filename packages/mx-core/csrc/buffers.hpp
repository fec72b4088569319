// SPDX-License-Identifier: Apache-2.0
//
// Python buffers as tensors.  Included by bindings only.
#pragma once

#include "mx_core/python.hpp"

#include <vector>

#include "guarded_memory.hpp"

namespace mx::core {

// Holds a C-contiguous buffer for the time of a run.  GIL held for construction and destruction.
class Buffer {
 public:
  // `object`: a buffer, or a pair (buffer, element type code) for types the buffer protocol lacks.
  // A read-only input is copied, since auxiliary states may be written.
  // Throws mx::PythonErrorSet or mx::Error.
  Buffer(PyObject* object, bool output, size_t index);
  ~Buffer() {
    if (view_.obj != nullptr) PyBuffer_Release(&view_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  const mx_tensor& tensor() const { return tensor_; }

 private:
  Py_buffer view_{};
  std::vector<int64_t> shape_;
  Memory copy_;
  mx_tensor tensor_{};
};

}  // namespace mx::core
