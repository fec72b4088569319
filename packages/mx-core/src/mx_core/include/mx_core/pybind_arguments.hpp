// SPDX-License-Identifier: Apache-2.0
//
// Arguments of functions that Python calls. What does not fit is an ArgumentError that says which function, which
// argument and which value; pybind11's own message shows C++ types.
//
// `argument` is the head of that message: "[StorageManager.alloc] nbytes".
#pragma once

#include "mx_core/pybind.hpp"

#include <limits>
#include <optional>
#include <string>
#include <type_traits>

namespace mx {

[[noreturn]] inline void refuse_argument(const char* argument, const std::string& expected, pybind11::handle got) {
  const std::string text =
      std::string(argument) + ": expected " + expected + ", got " + pybind11::repr(got).cast<std::string>();
  raise_status(MX_ERROR_VALUE, text.c_str());
  throw pybind11::error_already_set();
}

// A whole number of the C++ type: an int, or what has __index__, as NumPy's integers.
template <class Number>
Number whole_number(const char* argument, pybind11::handle value) {
  static_assert(std::is_integral_v<Number> && sizeof(Number) <= sizeof(long long));
  using Limits = std::numeric_limits<Number>;
  const auto index = pybind11::reinterpret_steal<pybind11::object>(PyNumber_Index(value.ptr()));
  if (index) {
    if constexpr (std::is_signed_v<Number>) {
      int overflow = 0;
      const long long n = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
      if (overflow == 0 && n >= Limits::min() && n <= Limits::max()) return static_cast<Number>(n);
    } else {
      const unsigned long long n = PyLong_AsUnsignedLongLong(index.ptr());
      if (PyErr_Occurred() == nullptr && n <= Limits::max()) return static_cast<Number>(n);
    }
  }
  if (PyErr_Occurred() != nullptr) {
    const bool wrong = PyErr_ExceptionMatches(PyExc_TypeError) != 0 || PyErr_ExceptionMatches(PyExc_OverflowError) != 0;
    if (!wrong) throw pybind11::error_already_set();
    PyErr_Clear();
  }
  refuse_argument(argument,
                  "a whole number from " + std::to_string(Limits::min()) + " to " + std::to_string(Limits::max()), value);
}

inline std::string text_of(const char* argument, pybind11::handle value, const char* expected = "a str") {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_Check(value.ptr()) != 0 ? PyUnicode_AsUTF8AndSize(value.ptr(), &size) : nullptr;
  if (text == nullptr) {
    PyErr_Clear();  // half of a surrogate pair
    refuse_argument(argument, expected, value);
  }
  return {text, static_cast<size_t>(size)};
}

inline std::optional<std::string> text_or_none(const char* argument, pybind11::handle value) {
  if (value.is_none()) return std::nullopt;
  return text_of(argument, value, "a str or None");
}

// A Context; `none` for None.
inline mx_context context_argument(const char* argument, pybind11::handle value, mx_context none) {
  try {
    return context_of(value, none);
  } catch (const pybind11::cast_error&) {
  } catch (const pybind11::error_already_set& error) {
    if (!error.matches(PyExc_AttributeError)) throw;
  }
  refuse_argument(argument, "a Context such as cpu()", value);
}

}  // namespace mx
