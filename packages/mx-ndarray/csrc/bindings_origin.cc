// SPDX-License-Identifier: Apache-2.0
//
// Which line of the user's program pushes an operation.
#include "bindings.hpp"

namespace mx::nd {
namespace {

// Remembers the text of (code object, instruction); a small direct-mapped table.
struct Place {
  PyObject* code = nullptr;  // Owns: a reference, so that the address is not reused
  int instruction = -1;
  bool internal = false;     // code of this package: the caller's line is wanted
  const char* text = nullptr;
};
constexpr size_t kPlaces = 1024;

bool is_internal(PyCodeObject* code) {
  const char* file = PyUnicode_AsUTF8(code->co_filename);
  if (file == nullptr) {
    PyErr_Clear();
    return false;
  }
  const std::string& folder = hooks().package_folder;
  return !folder.empty() && std::strncmp(file, folder.c_str(), folder.size()) == 0;
}

const Place& place_of(PyFrameObject* frame, PyCodeObject* code) {
  static auto* places = new Place[kPlaces];
  const int instruction = PyFrame_GetLasti(frame);
  const size_t mixed = (reinterpret_cast<size_t>(code) >> 4) * 31 + static_cast<size_t>(instruction);
  Place& place = places[mixed % kPlaces];
  auto* object = reinterpret_cast<PyObject*>(code);
  if (place.code == object && place.instruction == instruction) return place;
  const char* file = PyUnicode_AsUTF8(code->co_filename);
  if (file == nullptr) PyErr_Clear();
  const std::string text = std::string(file == nullptr ? "?" : file) + ":" +
                           std::to_string(PyFrame_GetLineNumber(frame));
  const mx_engine_api* engine = Runtime::instance().engine();
  Py_INCREF(object);
  Py_XDECREF(place.code);
  place = {object, instruction, is_internal(code), engine->intern(engine->self, text.c_str())};
  return place;
}

}  // namespace

const char* origin() noexcept {
  try {
    PyFrameObject* frame = PyEval_GetFrame();
    Py_XINCREF(frame);
    while (frame != nullptr) {
      PyCodeObject* code = PyFrame_GetCode(frame);
      const Place& place = place_of(frame, code);
      Py_DECREF(code);
      PyFrameObject* back = place.internal ? PyFrame_GetBack(frame) : nullptr;
      Py_DECREF(frame);
      if (!place.internal) return place.text;
      frame = back;
    }
  } catch (...) {
    PyErr_Clear();   // without an engine the push itself will say so
    return nullptr;  // an operation without a known line is still an operation
  }
  return nullptr;
}

}  // namespace mx::nd
