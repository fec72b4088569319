// SPDX-License-Identifier: Apache-2.0
//
// Which line of the user's program pushes an operation.
#include "bindings.hpp"
#include "hazard.hpp"

namespace mx::nd {
namespace {

// The text of (code object, instruction).  Immutable.
struct Place {
  PyObject* code;    // Owns: a reference, so that the address is not reused
  int instruction;
  bool internal;     // code of this package: the caller's line is wanted
  const char* text;  // lives as long as the process
};
constexpr size_t kPlaces = 1024;

// Direct-mapped.
std::atomic<const Place*>& entry(const PyCodeObject* code, int instruction) noexcept {
  static auto* places = new std::atomic<const Place*>[kPlaces]();
  const size_t mixed = (reinterpret_cast<size_t>(code) >> 4) * 31 + static_cast<size_t>(instruction);
  return places[mixed % kPlaces];
}

bool is_internal(PyCodeObject* code) {
  const char* file = PyUnicode_AsUTF8(code->co_filename);
  if (file == nullptr) {
    PyErr_Clear();
    return false;
  }
  const std::string& folder = hooks().package_folder;
  return !folder.empty() && std::strncmp(file, folder.c_str(), folder.size()) == 0;
}

void forget_place(void* object) noexcept {
  auto* place = static_cast<Place*>(object);
  auto code = py::reinterpret_steal<py::object>(place->code);
  drop(code);
  delete place;
}

// What is known of a frame: a copy without `code`.
Place place_of(PyFrameObject* frame, PyCodeObject* code) {
  const int instruction = PyFrame_GetLasti(frame);
  std::atomic<const Place*>& known = entry(code, instruction);
  auto* object = reinterpret_cast<PyObject*>(code);
  {
    const Protected<const Place> place(known);
    if (place && place->code == object && place->instruction == instruction) {
      return {nullptr, instruction, place->internal, place->text};
    }
  }
  const char* file = PyUnicode_AsUTF8(code->co_filename);
  if (file == nullptr) PyErr_Clear();
  const std::string text = std::string(file == nullptr ? "?" : file) + ":" +
                           std::to_string(PyFrame_GetLineNumber(frame));
  const mx_engine_api* engine = Runtime::instance().engine();
  auto made = std::make_unique<Place>(
      Place{object, instruction, is_internal(code), engine->intern(engine->self, text.c_str())});
  const Place found{nullptr, instruction, made->internal, made->text};
  Py_INCREF(object);
  const Place* old = known.exchange(made.release(), std::memory_order_seq_cst);
  if (old != nullptr) hazard::retire(const_cast<Place*>(old), &forget_place);
  return found;
}

}  // namespace

const char* origin() noexcept {
  try {
    PyFrameObject* frame = PyEval_GetFrame();
    Py_XINCREF(frame);
    while (frame != nullptr) {
      PyCodeObject* code = PyFrame_GetCode(frame);
      const Place place = place_of(frame, code);
      Py_DECREF(code);
      PyFrameObject* back = place.internal ? PyFrame_GetBack(frame) : nullptr;
      Py_DECREF(frame);
      if (!place.internal) return place.text;
      frame = back;
    }
  } catch (...) {
    drop_exception();  // without an engine the push itself will say so
    return nullptr;    // an operation without a known line is still an operation
  }
  return nullptr;
}

}  // namespace mx::nd
