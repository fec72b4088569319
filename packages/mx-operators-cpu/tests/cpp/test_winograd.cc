// SPDX-License-Identifier: Apache-2.0
//
// Winograd's algorithm in float32 and in float64 against the sums it stands for, in a wider type.
#include "convolution/first_layer_gradient.hpp"
#include "convolution/winograd/row_window.hpp"
#include "convolution/winograd/winograd_convolution.hpp"
#include "convolution/winograd/winograd_gradient.hpp"

#include <cmath>
#include <cstdio>
#include <initializer_list>
#include <random>
#include <type_traits>
#include <vector>

#include "mx_core/native_tests.hpp"

using namespace mx::cpu;

namespace {

// Of the largest result, with up to 1040 channels.
template <class T>
constexpr double kTolerance = std::is_same_v<T, float> ? 6e-6 : 3e-14;

template <class T>
using Array = std::vector<T>;
using Floats = Array<float>;
// What expected sums are computed in.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;

template <class T>
Array<T> drawn(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<T> normal;
  Array<T> made(n);
  for (T& x : made) x = normal(random);
  return made;
}

size_t data_size(const WinogradProblem& p) { return static_cast<size_t>(p.images * p.height * p.width * p.channels); }
size_t out_size(const WinogradProblem& p) { return static_cast<size_t>(p.images * p.out_height * p.out_width * p.filters); }
size_t filter_size(const WinogradProblem& p) { return static_cast<size_t>(p.filters * p.channels * kFilter * kFilter); }

// What a filter's elements are as (row, column, channel, filter): calls body(place in that order, offset in a layout).
template <class Body>
void for_filters(const WinogradProblem& p, const FilterLayout& f, const Body& body) {
  size_t place = 0;
  for (int64_t i = 0; i < kFilter; ++i)
    for (int64_t j = 0; j < kFilter; ++j) {
      const int64_t row = f.flipped ? kFilter - 1 - i : i, column = f.flipped ? kFilter - 1 - j : j;
      for (int64_t c = 0; c < p.channels; ++c)
        for (int64_t k = 0; k < p.filters; ++k)
          body(place++, static_cast<size_t>(c * f.input + k * f.output + row * f.row + column * f.column));
    }
}

// Calls body(x, y, w) for every tap of every window: where the channels of its pixel begin, the filters of its result,
// and the tap's channels times filters.
template <class Body>
void for_taps(const WinogradProblem& p, const Body& body) {
  for (int64_t n = 0; n < p.images; ++n)
    for (int64_t r = 0; r < p.out_height; ++r)
      for (int64_t s = 0; s < p.out_width; ++s)
        for (int64_t i = 0; i < kFilter; ++i)
          for (int64_t j = 0; j < kFilter; ++j) {
            const int64_t y = r + i - p.pad_top, x = s + j - p.pad_left;
            if (y < 0 || y >= p.height || x < 0 || x >= p.width) continue;
            body(((n * p.height + y) * p.width + x) * p.channels, ((n * p.out_height + r) * p.out_width + s) * p.filters,
                 (i * kFilter + j) * p.channels * p.filters);
          }
}

// One thread computes what is expected: instrumented, its billion products would take most of a sanitizer's time.
#define MX_EXPECTED __attribute__((no_sanitize("thread")))

// y[k] += sum over c of x[c] * w[c][k]
template <class T, class W>
MX_EXPECTED void add_products(const T* x, const W* w, int64_t channels, int64_t filters, W* y) {
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t k = 0; k < filters; ++k) y[k] += static_cast<W>(x[c]) * w[c * filters + k];
}

// w[c][k] += x[c] * y[k]
template <class T, class W>
MX_EXPECTED void add_outer_product(const T* x, const T* y, int64_t channels, int64_t filters, W* w) {
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t k = 0; k < filters; ++k) w[c * filters + k] += static_cast<W>(x[c]) * static_cast<W>(y[k]);
}

template <class W>
W largest(const Array<W>& values) {
  W found = 0;
  for (W x : values) found = std::fmax(found, std::fabs(x));
  return found;
}

template <class T, class W>
bool close(const Array<T>& got, const Array<W>& want, W tolerance) {
  for (size_t i = 0; i < want.size(); ++i)
    if (!(std::fabs(static_cast<W>(got[i]) - want[i]) <= tolerance)) return false;
  return true;
}

template <class W, class T>
W activated(W x, const Epilogue<T>& e) {
  const auto alpha = static_cast<W>(e.alpha), beta = static_cast<W>(e.beta);
  switch (e.activation) {
    case WinogradActivation::relu: return std::fmax(x, W{0});
    case WinogradActivation::leaky: return x < 0 ? alpha * x : x;
    case WinogradActivation::clip: return std::fmin(std::fmax(x, alpha), beta);
    default: return x;
  }
}

// What the direct sums give, from filters of a layout.
template <class T>
Array<Wide<T>> convolved(const WinogradProblem& p, const FilterLayout& layout) {
  const Array<T> data = drawn<T>(data_size(p), 1), filters = drawn<T>(filter_size(p), 2);
  Array<Wide<T>> ordered(filter_size(p)), sums(out_size(p));
  for_filters(p, layout, [&](size_t place, size_t offset) { ordered[place] = filters[offset]; });
  for_taps(p, [&](int64_t x, int64_t y, int64_t w) {
    add_products(data.data() + x, ordered.data() + w, p.channels, p.filters, sums.data() + y);
  });
  return sums;
}

// The gradient of the filters, as (row, column, channel, filter).
template <class T>
Array<Wide<T>> differentiated(const WinogradProblem& p) {
  const Array<T> data = drawn<T>(data_size(p), 5), out_grad = drawn<T>(out_size(p), 6);
  Array<Wide<T>> sums(filter_size(p));
  for_taps(p, [&](int64_t x, int64_t y, int64_t w) {
    add_outer_product(data.data() + x, out_grad.data() + y, p.channels, p.filters, sums.data() + w);
  });
  return sums;
}

// `want`: the direct sums, without what follows.
template <class T>
void check_convolution(const WinogradProblem& p, const FilterLayout& layout, Array<Wide<T>> want, int threads,
                       WinogradActivation activation, bool ready = false) {
  const Array<T> data = drawn<T>(data_size(p), 1), filters = drawn<T>(filter_size(p), 2);
  const Array<T> residual = drawn<T>(out_size(p), 3), bias = drawn<T>(static_cast<size_t>(p.filters), 4);
  Epilogue<T> epilogue;
  epilogue.activation = activation;
  epilogue.alpha = static_cast<T>(-0.25), epilogue.beta = 2;
  if (activation != WinogradActivation::none) epilogue.bias = bias.data();

  const MinimalConvolution<T> convolution(p, layout, ready, threads);
  Array<T> points(static_cast<size_t>(filter_points_size<T>(p)), NAN), out(out_size(p), NAN);
  Array<T> space(static_cast<size_t>(convolution.workspace_size()), NAN);
  make_filter_points(p, filters.data(), layout, points.data());
  if (activation == WinogradActivation::clip) {  // the residual lies where the result goes
    out = residual;
    epilogue.residual = out.data();
  }
  convolution.run(data.data(), ready ? points.data() : filters.data(), epilogue, out.data(), space.data());
  const Wide<T> tolerance = static_cast<Wide<T>>(kTolerance<T>) * largest(want);
  for (size_t i = 0; i < want.size(); ++i) {
    if (epilogue.bias != nullptr) want[i] += bias[i % bias.size()];
    if (epilogue.residual != nullptr) want[i] += residual[i];
    want[i] = activated(want[i], epilogue);
  }
  CHECK(close(out, want, tolerance));
}

template <class T>
void check_filter_gradient(const WinogradProblem& p, const FilterLayout& layout, const Array<Wide<T>>& sums,
                           int threads) {
  const Array<T> data = drawn<T>(data_size(p), 5), out_grad = drawn<T>(out_size(p), 6);
  Array<Wide<T>> want(filter_size(p));
  for_filters(p, layout, [&](size_t place, size_t offset) { want[offset] = sums[place]; });
  const WinogradGradient<T> made(p, threads);
  Array<T> gradient(filter_size(p), NAN), space(static_cast<size_t>(made.workspace_size()), NAN);
  made.run(data.data(), out_grad.data(), gradient.data(), layout, space.data());
  CHECK(close(gradient, want, static_cast<Wide<T>>(kTolerance<T>) * largest(want)));
}

template <class T>
void check_geometry(const WinogradProblem& p) {
  const FilterLayout rows{kFilter * kFilter, p.channels * kFilter * kFilter, kFilter, 1};
  const FilterLayout last{1, p.channels * kFilter * kFilter, p.channels * kFilter, p.channels};
  FilterLayout flipped{p.filters * kFilter * kFilter, 1, p.filters * kFilter, p.filters, true};
  const auto of_rows = convolved<T>(p, rows), gradient = differentiated<T>(p);
  for (int threads : {1, 2, 3}) {
    check_convolution<T>(p, rows, of_rows, threads, WinogradActivation::none);
    check_filter_gradient<T>(p, last, gradient, threads);
  }
  check_convolution<T>(p, last, convolved<T>(p, last), 1, WinogradActivation::relu);
  check_convolution<T>(p, flipped, convolved<T>(p, flipped), 1, WinogradActivation::leaky, true);
  check_convolution<T>(p, rows, of_rows, 2, WinogradActivation::clip);
  check_filter_gradient<T>(p, rows, gradient, 2);
}

template <class T>
void every_geometry() {
  const WinogradProblem problems[] = {
      {1, 4, 4, 16, 4, 4, 16, 1, 1},     {2, 5, 7, 16, 3, 5, 32, 0, 0},   {1, 1, 1, 32, 1, 1, 16, 1, 1},
      {3, 9, 6, 48, 11, 8, 16, 2, 2},    {1, 6, 6, 16, 12, 10, 48, 4, 3}, {1, 13, 14, 80, 13, 14, 112, 1, 1},
      {2, 30, 31, 16, 29, 31, 16, 0, 1}, {1, 3, 3, 16, 1, 1, 144, 0, 0},  {1, 4, 4, 1040, 4, 4, 16, 1, 1},
  };
  for (const WinogradProblem& p : problems) check_geometry<T>(p);
}

template <class T>
void large_filters(std::initializer_list<WinogradProblem> problems) {  // where all threads work on one group
  for (const WinogradProblem& p : problems) {
    const FilterLayout last{1, p.channels * kFilter * kFilter, p.channels * kFilter, p.channels};
    const auto sums = convolved<T>(p, last);
    for (bool ready : {false, true}) check_convolution<T>(p, last, sums, 2, WinogradActivation::relu, ready);
    check_filter_gradient<T>(p, last, differentiated<T>(p), 2);
  }
}

void images_with_few_channels() {
  const ImageProblem problems[] = {{2, 9, 11, 3, 5, 6, 16, 7, 7, 2, 2, 3, 3}, {1, 6, 5, 1, 4, 3, 80, 3, 3, 1, 1, 0, 0},
                                   {1, 3, 2, 4, 9, 9, 32, 1, 2, 1, 1, 3, 4},  {3, 8, 8, 2, 2, 2, 16, 3, 3, 4, 4, 0, 0}};
  for (const ImageProblem& p : problems) {
    const FilterLayout last{1, p.taps(), p.row_taps(), p.channels};
    const auto size = [](int64_t n) { return static_cast<size_t>(n); };
    const Floats data = drawn<float>(size(p.images * p.height * p.width * p.channels), 7);
    const Floats out_grad = drawn<float>(size(p.images * p.out_height * p.out_width * p.filters), 8);
    std::vector<double> want(size(p.filters * p.taps()));
    for (int64_t row = 0; row < p.images * p.out_height; ++row)
      for (int64_t s = 0; s < p.out_width; ++s)
        for (int64_t tap = 0; tap < p.taps(); ++tap) {
          const int64_t y = row % p.out_height * p.step_down - p.pad_top + tap / p.row_taps();
          const int64_t x = s * p.step_across - p.pad_left + tap % p.row_taps() / p.channels;
          if (y < 0 || y >= p.height || x < 0 || x >= p.width) continue;
          const int64_t pixel = (row / p.out_height * p.height + y) * p.width + x;
          for (int64_t k = 0; k < p.filters; ++k)
            want[size(k * p.taps() + tap)] += static_cast<double>(data[size(pixel * p.channels + tap % p.channels)]) *
                                              out_grad[size((row * p.out_width + s) * p.filters + k)];
        }
    for (int threads : {1, 3}) {
      const ImageGradient made(p, threads);
      Floats gradient(want.size(), NAN), space(size(made.workspace_size()), NAN);
      made.run(data.data(), out_grad.data(), gradient.data(), last, space.data());
      CHECK(suits(p) && close(gradient, want, kTolerance<float> * largest(want)));
    }
  }
}

// Where a dimension is 0: the gradient has zeros. With pixels of padding alone there are results.
void images_without_pixels_or_results() {
  for (const WinogradProblem& p : {WinogradProblem{2, 4, 0, 16, 4, 0, 16, 1, 1}, {2, 0, 4, 16, 0, 4, 16, 1, 1},
                                   {0, 4, 4, 16, 4, 4, 16, 1, 1}, {2, 4, 0, 16, 4, 2, 16, 1, 2},
                                   {2, 0, 4, 16, 2, 4, 16, 2, 1}}) {
    const FilterLayout rows{kFilter * kFilter, p.channels * kFilter * kFilter, kFilter, 1};
    for (bool channels_last : {false, true}) {
      const WinogradGradient<double> made(p, 2, channels_last);
      if (p.tiles() > 0 && !uses_avx512()) continue;
      const Array<double> data(data_size(p)), out_grad = drawn<double>(out_size(p), 6);
      Array<double> gradient(filter_size(p), NAN), space(static_cast<size_t>(made.workspace_size()), NAN);
      made.run(data.data(), out_grad.data(), gradient.data(), rows, space.data());
      CHECK(gradient == Array<double>(filter_size(p), 0.0));
    }
  }
}

// Copies of rows are found where they lie; no pointer before them is formed.
void rows_of_a_window() {
  constexpr int64_t kImages = 2, kChannels = 3, kHeight = 10, kWidth = 5, kRoom = 4;
  const Images<double> images{kImages, kChannels, kHeight * kWidth};
  const Array<double> data = drawn<double>(static_cast<size_t>(images.size()), 9);
  Array<double> last(data.size()), room(static_cast<size_t>(kRoom * kWidth * kChannels));
  images.to_channels_last(data.data(), last.data());
  RowWindow<double> window(data.data(), images, kWidth, kRoom, room.data());
  for (int64_t begin = 0; begin + 2 <= kImages * kHeight; ++begin) {
    const Pixels<double> found = window.reach(begin, begin + 2, kImages * kHeight);
    CHECK(found.from == room.data() && found.missing <= begin * kWidth * kChannels);
    for (int64_t i = begin * kWidth * kChannels; i < (begin + 2) * kWidth * kChannels; ++i)
      CHECK(*found.at(i) == last[static_cast<size_t>(i)]);
  }
}

void of_float32() {
  every_geometry<float>();
  large_filters<float>({{1, 40, 40, 160, 40, 40, 192, 1, 1}, {1, 11, 12, 256, 11, 12, 128, 1, 1}});
}

void of_float64() {
  every_geometry<double>();
  check_geometry<double>({2, 6, 7, 8, 6, 7, 24, 1, 1});
  large_filters<double>({{1, 14, 15, 136, 14, 15, 120, 1, 1}, {1, 11, 12, 128, 11, 12, 128, 1, 1}});
}

void what_pays() {
  const WinogradProblem large{16, 56, 56, 64, 56, 56, 64, 1, 1}, point{1, 1, 1, 512, 1, 1, 512, 1, 1};
  CHECK(pays(large, true) && pays(large, false) && gradient_pays(large));
  CHECK(!pays(point, true) && !pays(point, false) && !gradient_pays(point));
  const WinogradProblem most{1, 8, 8, 512, 8, 8, 1024, 1, 1}, more{1, 8, 8, 2048, 8, 8, 2048, 1, 1};
  CHECK(possible<float>(most) && !possible<float>(more) && !possible<double>(most));
  const WinogradProblem eight{1, 8, 8, 8, 8, 8, 24, 1, 1};
  CHECK(!possible<float>(eight) && possible<double>(eight));
  CHECK(!possible<float>({1, 8, 8, 3, 8, 8, 64, 1, 1}) && !possible<double>({1, 8, 8, 64, 8, 8, 10, 1, 1}));
}

}  // namespace

int main() {
  test::run({{"images without pixels or results", images_without_pixels_or_results},
             {"rows of a window", rows_of_a_window}});
  if (!uses_avx512()) {
    std::puts("the rest is skipped: the processor has no AVX-512");
    return 0;
  }
  return test::run({{"of float32", of_float32}, {"of float64", of_float64},
                    {"images with few channels", images_with_few_channels}, {"what pays", what_pays}});
}
