// SPDX-License-Identifier: Apache-2.0
//
// Which windows are left to the library's kernels.
#include "convolution/onednn_windows.hpp"

#include "mx_core/native_tests.hpp"
#include "oneapi/dnnl/dnnl.hpp"

using namespace mx::cpu;

namespace {

bool has(int all, int without) {
  const int features = all & ~without;
  return (static_cast<int>(dnnl::get_effective_cpu_isa()) & features) == features;
}

// An axis of so many values before and after.
WindowAxis axis(int64_t large, int64_t small, int64_t extent, int64_t stride = 1, int64_t pad_begin = 0,
                int64_t pad_end = 0) {
  WindowAxis made{};
  made.large = large;
  made.small = small;
  made.extent = extent;
  made.stride = stride;
  made.pad_begin = pad_begin;
  made.pad_end = pad_end;
  return made;
}

// Beside an axis and with channels that suit every kernel.
bool suits(const WindowAxis& a) { return bfloat16_kernels_suit({a, axis(14, 14, 3, 1, 1, 1)}, 32); }

void windows_without_steps() {
  CHECK(suits(axis(14, 12, 3)) && suits(axis(14, 14, 3, 1, 1, 1)) && suits(axis(5, 1, 5)) && suits(axis(1, 1, 1)));
  CHECK(suits(axis(3, 1, 3)) && !suits(axis(2, 2, 3, 1, 1, 1)));  // no room for a window but in the padding
}

void padding_of_at_most_half_a_window() {
  CHECK(suits(axis(14, 14, 4, 1, 2, 2)) && !suits(axis(14, 14, 4, 1, 3, 2)) && !suits(axis(14, 14, 4, 1, 2, 3)));
  CHECK(!suits(axis(14, 14, 3, 1, 2, 1)) && !suits(axis(14, 14, 3, 1, 1, 2)) && !suits(axis(14, 14, 1, 1, 1, 0)));
}

void steps_that_skip_nothing() {
  CHECK(suits(axis(14, 6, 3, 2)) && suits(axis(14, 4, 3, 3)) && !suits(axis(14, 3, 3, 4)));
  CHECK(suits(axis(14, 7, 1, 2)) && !suits(axis(14, 5, 1, 3)) && suits(axis(14, 7, 2, 2)));
  CHECK(suits(axis(7, 3, 3, 2)) && !suits(axis(5, 2, 3, 2)));  // a window or two
}

void tiles_of_matrix_units() {
  const bool tiles = has(dnnl_cpu_isa_avx512_core_amx, dnnl_cpu_isa_avx512_core_fp16);
  const auto fit = [](const WindowAxis& last, int64_t channels) {
    return bfloat16_kernels_suit({axis(14, 14, 3, 1, 1, 1), last}, channels);
  };
  for (const int64_t channels : {3, 4, 5, 31, 32, 33, 64}) {
    const bool whole = channels <= 4 || channels % 32 == 0;
    CHECK(fit(axis(14, 14, 3, 1, 1, 1), channels) && fit(axis(14, 6, 3, 2), channels));  // windows that overlap
    CHECK(fit(axis(21, 7, 3, 3), channels) == (whole || !tiles));
  }
  CHECK(fit(axis(14, 6, 3, 2), 32) && fit(axis(11, 5, 3, 2), 32) == !tiles);
}

void gradients_of_filters_in_three_dimensions() {
  const bool strict = has(dnnl_cpu_isa_avx512_core, dnnl_cpu_isa_avx2);
  const WindowAxis plane = axis(14, 7, 3, 2, 2, 2);
  CHECK(filter_gradients_suit({plane}) && filter_gradients_suit({plane, plane}));
  CHECK(filter_gradients_suit({plane, plane, plane}) == !strict);
  CHECK(filter_gradients_suit({axis(14, 7, 4, 2, 2, 2), plane, plane}));
  CHECK(filter_gradients_suit({axis(14, 7, 4, 2, 3, 2), plane, plane}) == !strict);
  CHECK(filter_gradients_suit({axis(14, 7, 4, 2, 2, 3), plane, plane}) == !strict);
  CHECK(filter_gradients_suit({axis(14, 16, 3, 1, 2, 2), plane, plane}));
}

}  // namespace

int main() {
  return test::run({{"windows without steps", windows_without_steps},
                    {"padding", padding_of_at_most_half_a_window},
                    {"steps", steps_that_skip_nothing},
                    {"matrix units", tiles_of_matrix_units},
                    {"gradients of filters", gradients_of_filters_in_three_dimensions}});
}
