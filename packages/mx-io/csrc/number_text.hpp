// SPDX-License-Identifier: Apache-2.0
//
// Lines of comma-separated numbers.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <system_error>
#include <type_traits>

namespace mx::io {

// Reads what is plain, fast.  Of other text it says neither what is wrong nor whether anything is.
class NumberText {
 public:
  NumberText(const char* begin, const char* end) : at_(begin), end_(end) {}

  // Writes `columns` numbers of each line to `out`, which has room for `rows` lines.  Empty ones do not count.  Returns
  // the number of lines, or nothing if a line has another number of values or is no plain text of numbers: digits with
  // a sign, a point and an exponent as std::from_chars takes them, within the type, with blanks around.  Real numbers
  // are rounded to double first, as NumPy does.
  template <typename T>
  std::optional<size_t> read(T* out, size_t rows, size_t columns) {
    size_t row = 0;
    while (true) {
      while (end_of_line()) {}
      if (at_ == end_) return row;
      if (row == rows) return std::nullopt;
      for (size_t i = 0; i < columns; ++i) {
        if (i != 0 && !skip(',')) return std::nullopt;
        if (!number(out++)) return std::nullopt;
      }
      if (at_ != end_ && !end_of_line()) return std::nullopt;
      ++row;
    }
  }

 private:
  bool skip(char expected) {
    if (at_ == end_ || *at_ != expected) return false;
    ++at_;
    return true;
  }

  bool end_of_line() {
    const char* const start = at_;
    skip('\r');
    if (skip('\n')) return true;
    at_ = start;
    return false;
  }

  void skip_blanks() {
    while (skip(' ') || skip('\t')) {}
  }

  template <typename T>
  bool number(T* out) {
    skip_blanks();
    if (skip('+') && at_ != end_ && *at_ == '-') return false;
    const char first = at_ == end_ ? '\0' : *at_ == '-' && at_ + 1 != end_ ? at_[1] : *at_;
    if (first != '.' && (first < '0' || first > '9')) return false;  // also words: infinity and what is not a number
    std::conditional_t<std::is_floating_point_v<T>, double, T> value{};
    const auto [next, error] = std::from_chars(at_, end_, value);
    if (error != std::errc{}) return false;
    at_ = next;
    skip_blanks();
    *out = static_cast<T>(value);
    return true;
  }

  const char* at_;
  const char* end_;
};

}  // namespace mx::io
