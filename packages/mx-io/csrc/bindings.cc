// SPDX-License-Identifier: Apache-2.0
#include "bindings.hpp"

#include <stdexcept>

#include "errors.hpp"
#include "mx_core/pybind_holder.hpp"
#include "mx_core/python.hpp"

namespace py = pybind11;

namespace {

// Paths are bytes to the system: a message may hold some that are not UTF-8.
py::object text(const char* message) {
  return py::reinterpret_steal<py::object>(PyUnicode_DecodeFSDefault(message));
}

void raise_named(const char* name, const char* message) {
  const py::object type = py::module_::import("mx_core.errors").attr(name);
  PyErr_SetObject(type.ptr(), text(message).ptr());
}

void translate(std::exception_ptr thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const mx::io::FormatError& error) {
    raise_named("FileFormatError", error.what());
  } catch (const mx::io::FileError& error) {
    const py::object of = py::module_::import("mx_core.errors").attr("FileError").attr("of");
    const py::object kind = py::type::of(of(error.code(), ""));
    PyErr_SetObject(kind.ptr(), kind(error.code(), text(error.what())).ptr());
  } catch (const std::length_error& error) {
    raise_named("ArgumentError", error.what());
  } catch (const mx::Error& error) {
    mx::raise_status(error.code(), error.what());
  }
}

}  // namespace

PYBIND11_MODULE(_core, module, pybind11::mod_gil_not_used()) {
  module.doc() = "Native parts of mx_io: record files and image augmentation.";
  py::register_local_exception_translator(&translate);
  mx::io::bind_numbers(module);
  mx::io::bind_records(module);
  mx::io::bind_images(module);
  mx::refuse_uninitialised(module);
}
