// SPDX-License-Identifier: Apache-2.0
#include "mx_core/types.hpp"

#include <cstdlib>
#include <cstring>

#include "mx_core/native_tests.hpp"

int main() {
  // The names say the sizes: "float64" has 64 bits, "bool" one byte.
  for (int32_t dtype = MX_FLOAT32; dtype <= MX_COMPLEX128; ++dtype) {
    const char* digits = std::strpbrk(mx::type_name(dtype), "0123456789");
    const size_t bits = digits == nullptr ? 8 : static_cast<size_t>(std::atoi(digits));
    CHECK(mx::item_size(dtype) * 8 == bits);
  }
  for (const int32_t unknown : {-1, 15, 1000}) {
    CHECK(mx::item_size(unknown) == 0 && std::strcmp(mx::type_name(unknown), "unknown") == 0);
  }
  static_assert(mx::item_size(MX_BFLOAT16) == 2, "known when compiling");
  CHECK(mx_on_host({MX_CPU, 3}) == 1 && mx_on_host({MX_CPU_PINNED, 0}) == 1);
  CHECK(mx_on_host({MX_CPU_SHARED, 0}) == 1 && mx_on_host({MX_GPU, 0}) == 0);
  CHECK(mx_on_host({MX_FIRST_PLUGIN_DEVICE, 0}) == 0);
}
