// SPDX-License-Identifier: Apache-2.0
#include <pybind11/numpy.h>

#include <string_view>

#include "bindings.hpp"
#include "mx_core/gil.hpp"
#include "mx_core/pybind_holder.hpp"
#include "number_text.hpp"

namespace py = pybind11;

namespace mx::io {
namespace {

template <typename T>
py::object read_numbers(const py::bytes& text, py::array_t<T, py::array::c_style> out) {
  if (out.ndim() != 2) throw py::value_error("expected an array of two axes, got " + std::to_string(out.ndim()));
  const std::string_view view = text;
  T* const numbers = out.mutable_data();
  const auto rows = static_cast<size_t>(out.shape(0)), columns = static_cast<size_t>(out.shape(1));
  std::optional<size_t> found;
  {
    const GilRelease release;
    found = NumberText(view.data(), view.data() + view.size()).read(numbers, rows, columns);
  }
  return found ? py::object(py::int_(*found)) : py::object(py::none());
}

template <typename T>
void bind_numbers_of(py::module_& module) {
  module.def("read_numbers", &read_numbers<T>, py::arg("text"), py::arg("out").noconvert(),
             "Write lines of comma-separated numbers to rows of `out`; how many, or None if the text is not plain.");
}

}  // namespace

void bind_numbers(py::module_& module) {
  bind_numbers_of<float>(module);
  bind_numbers_of<int32_t>(module);
  bind_numbers_of<int64_t>(module);
}

}  // namespace mx::io
