// SPDX-License-Identifier: Apache-2.0
//
// Contexts between Python and native code, without running Python where they are read.
#include "bindings.hpp"

#include <structmember.h>

#include <array>

namespace mx::nd {
namespace {

// Where an instance of a class with __slots__ keeps an attribute; 0 when it is kept otherwise.
Py_ssize_t slot_offset(const py::handle& type, const char* name) {
  const py::object descriptor = type.attr(name);
  if (!PyObject_TypeCheck(descriptor.ptr(), &PyMemberDescr_Type)) return 0;
  return reinterpret_cast<PyMemberDescrObject*>(descriptor.ptr())->d_member->offset;
}

struct ContextLayout {
  Py_ssize_t type;
  Py_ssize_t id;
};

const ContextLayout& layout() {
  static const ContextLayout found{slot_offset(hooks().context_class, "device_typeid"),
                                   slot_offset(hooks().context_class, "device_id")};
  return found;
}

int32_t attribute(PyObject* context, Py_ssize_t offset, const char* name) {
  PyObject* stored = nullptr;
  if (offset != 0 && is_context(context)) {
    stored = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(context) + offset);
  }
  if (stored == nullptr || PyLong_CheckExact(stored) == 0) {
    return py::handle(context).attr(name).cast<int32_t>();
  }
  return py::handle(stored).cast<int32_t>();
}

}  // namespace

bool is_context(PyObject* object) noexcept {
  return reinterpret_cast<PyObject*>(Py_TYPE(object)) == hooks().context_class.ptr();
}

mx_context context_of(PyObject* context) {
  const ContextLayout& at = layout();
  return {attribute(context, at.type, "device_typeid"), attribute(context, at.id, "device_id")};
}

// The objects of the first devices that are asked for are kept, and leaked.
PyObject* context_object(mx_context context) {
  struct Kept {
    mx_context place;
    PyObject* object;  // Owns
  };
  static std::array<std::atomic<const Kept*>, 16> devices{};
  const auto mixed = static_cast<uint32_t>(context.type) * 5 + static_cast<uint32_t>(context.id);
  std::atomic<const Kept*>& place = devices[mixed % devices.size()];
  const Kept* kept = place.load(std::memory_order_acquire);
  if (kept != nullptr && kept->place.type == context.type && kept->place.id == context.id) {
    Py_INCREF(kept->object);
    return kept->object;
  }
  py::object made = hooks().context(context.type, context.id);
  if (kept == nullptr) {
    auto fresh = std::make_unique<Kept>(Kept{context, made.ptr()});
    if (place.compare_exchange_strong(kept, fresh.get(), std::memory_order_acq_rel)) {
      fresh.release();
      made.inc_ref();
    }
  }
  return made.release().ptr();
}

mx_context current_context() {
  static PyObject* const name = owned(PyUnicode_InternFromString("stack"));
  const auto stack = py::reinterpret_steal<py::object>(
      owned(PyObject_GetAttr(hooks().entered_contexts.ptr(), name)));
  const Py_ssize_t n = PyTuple_CheckExact(stack.ptr()) != 0 ? PyTuple_GET_SIZE(stack.ptr()) : 0;
  if (n == 0) return {MX_CPU, 0};
  return context_of(PyTuple_GET_ITEM(stack.ptr(), n - 1));
}

}  // namespace mx::nd
