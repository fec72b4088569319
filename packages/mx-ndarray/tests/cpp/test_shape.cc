// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "mx_core/native_tests.hpp"
#include "shape.hpp"

using mx::nd::byte_size;
using mx::nd::Shape;

namespace {

Shape shape(std::vector<int64_t> dims) { return {static_cast<int32_t>(dims.size()), dims.data()}; }

void copies_and_moves_keep_every_dimension() {
  for (int rank = 0; rank <= MX_MAX_NDIM; ++rank) {
    const std::vector<int64_t> dims(static_cast<size_t>(rank), rank);
    Shape a = shape(dims);
    Shape b = a;
    Shape c = std::move(a);
    CHECK(b == c && b.ndim() == rank);
    b = shape({9});
    CHECK(b != c || rank == 1);
    c = b;
    CHECK(c == b);
  }
}

void sizes_are_checked() {
  CHECK(byte_size(shape({2, 3}), MX_FLOAT32) == 24);
  CHECK(byte_size(shape({}), MX_FLOAT64) == 8);
  CHECK(byte_size(shape({int64_t{1} << 62, 0, int64_t{1} << 62}), MX_FLOAT64) == 0);
  test::error_of([&] { byte_size(shape({int64_t{1} << 62, 4}), MX_UINT8); });
  test::error_of([&] { byte_size(shape({int64_t{1} << 61}), MX_FLOAT32); });
  test::error_of([&] { byte_size(shape({-1}), MX_FLOAT32); });
  test::error_of([&] { byte_size(shape({1}), 99); });
  test::error_of([&] { shape(std::vector<int64_t>(MX_MAX_NDIM + 1, 1)); });
}

void text_is_pythons() {
  CHECK(shape({}).text() == "()");
  CHECK(shape({3}).text() == "(3,)");
  CHECK(shape({3, 4}).text() == "(3, 4)");
}

}  // namespace

int main() {
  copies_and_moves_keep_every_dimension();
  sizes_are_checked();
  text_is_pythons();
}
