// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "mx_core/native_tests.hpp"
#include "number_text.hpp"

using mx::io::NumberText;

namespace {

// The text lies in memory of its size, so that the address sanitizer sees a look beyond it.
template <typename T>
std::optional<size_t> read(const std::string& text, std::vector<T>& out, size_t rows, size_t columns) {
  const std::unique_ptr<char[]> exact(new char[text.size()]);
  text.copy(exact.get(), text.size());
  out.assign(rows * columns, T{});
  return NumberText(exact.get(), exact.get() + text.size()).read(out.data(), rows, columns);
}

void lines_become_rows() {
  std::vector<float> reals;
  CHECK(read("1,2.5\n\n-3e2, +.5\r\n", reals, 3, 2) == 2u);
  CHECK((reals == std::vector<float>{1, 2.5f, -300, .5f, 0, 0}));
  std::vector<int32_t> numbers;
  CHECK(read("-2147483648\n2147483647", numbers, 2, 1) == 2u);
  CHECK(numbers[0] == INT32_MIN && numbers[1] == INT32_MAX);
  CHECK(read("", numbers, 0, 1) == 0u);
}

void other_text_is_left_alone() {
  std::vector<float> reals;
  for (const char* text : {"1", "1,2,3", "1,", ",1", "1,2\n3", "1,2\r3,4", "inf,1", "1,nan", "+-1,2", "1 2,3",
                            "0x1,2", "1,1e999", "-", "1,-", " ", "\""}) {
    CHECK(!read(text, reals, 4, 2));
  }
  std::vector<int32_t> numbers;
  for (const char* text : {"2147483648", "1.0", "1e3", "1_0"}) CHECK(!read(text, numbers, 1, 1));
  CHECK(!read("1\n2", numbers, 1, 1));  // more lines than there is room for
}

void nothing_is_written_or_read_beyond() {
  std::mt19937 random(0);
  const std::string letters = "0123456789.,,,\n\n\r-+e \tnif";
  std::vector<float> reals;
  std::vector<int64_t> numbers;
  for (int i = 0; i < 20000; ++i) {
    std::string text(random() % 24, ' ');
    for (char& letter : text) letter = letters[random() % letters.size()];
    const size_t rows = random() % 4, columns = random() % 4;
    if (const auto found = read(text, reals, rows, columns)) CHECK(*found <= rows);
    if (const auto found = read(text, numbers, rows, columns)) CHECK(*found <= rows);
  }
}

}  // namespace

int main() {
  lines_become_rows();
  other_text_is_left_alone();
  nothing_is_written_or_read_beyond();
  std::puts("ok");
  return 0;
}
