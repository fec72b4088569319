// SPDX-License-Identifier: Apache-2.0
//
// Winograd's algorithm against the sums it stands for, in double precision.
#include "convolution/first_layer_gradient.hpp"
#include "convolution/winograd/winograd_convolution.hpp"
#include "convolution/winograd/winograd_gradient.hpp"

#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "mx_core/native_tests.hpp"

using namespace mx::cpu;

namespace {

constexpr double kTolerance = 6e-6;  // of the largest result

using Floats = std::vector<float>;

Floats drawn(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Floats made(n);
  for (float& x : made) x = normal(random);
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
MX_EXPECTED void add_products(const float* x, const double* w, int64_t channels, int64_t filters, double* y) {
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t k = 0; k < filters; ++k) y[k] += static_cast<double>(x[c]) * w[c * filters + k];
}

// w[c][k] += x[c] * y[k]
MX_EXPECTED void add_outer_product(const float* x, const float* y, int64_t channels, int64_t filters, double* w) {
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t k = 0; k < filters; ++k) w[c * filters + k] += static_cast<double>(x[c]) * y[k];
}

double largest(const std::vector<double>& values) {
  double found = 0;
  for (double x : values) found = std::fmax(found, std::fabs(x));
  return found;
}

bool close(const Floats& got, const std::vector<double>& want, double tolerance) {
  for (size_t i = 0; i < want.size(); ++i)
    if (!(std::fabs(got[i] - want[i]) <= tolerance)) return false;
  return true;
}

double activated(double x, const Epilogue& e) {
  switch (e.activation) {
    case Epilogue::Activation::relu: return std::fmax(x, 0);
    case Epilogue::Activation::leaky: return x < 0 ? static_cast<double>(e.alpha) * x : x;
    case Epilogue::Activation::clip: return std::fmin(std::fmax(x, e.alpha), e.beta);
    default: return x;
  }
}

// What the direct sums give, from filters of a layout.
std::vector<double> convolved(const WinogradProblem& p, const FilterLayout& layout) {
  const Floats data = drawn(data_size(p), 1), filters = drawn(filter_size(p), 2);
  std::vector<double> ordered(filter_size(p)), sums(out_size(p));
  for_filters(p, layout, [&](size_t place, size_t offset) { ordered[place] = static_cast<double>(filters[offset]); });
  for_taps(p, [&](int64_t x, int64_t y, int64_t w) {
    add_products(data.data() + x, ordered.data() + w, p.channels, p.filters, sums.data() + y);
  });
  return sums;
}

// The gradient of the filters, as (row, column, channel, filter).
std::vector<double> differentiated(const WinogradProblem& p) {
  const Floats data = drawn(data_size(p), 5), out_grad = drawn(out_size(p), 6);
  std::vector<double> sums(filter_size(p));
  for_taps(p, [&](int64_t x, int64_t y, int64_t w) {
    add_outer_product(data.data() + x, out_grad.data() + y, p.channels, p.filters, sums.data() + w);
  });
  return sums;
}

// `want`: the direct sums, without what follows.
void check_convolution(const WinogradProblem& p, const FilterLayout& layout, std::vector<double> want, int threads,
                       Epilogue::Activation activation, bool ready = false) {
  const Floats data = drawn(data_size(p), 1), filters = drawn(filter_size(p), 2), residual = drawn(out_size(p), 3);
  const Floats bias = drawn(static_cast<size_t>(p.filters), 4);
  Epilogue epilogue;
  epilogue.activation = activation;
  epilogue.alpha = -0.25f, epilogue.beta = 2;
  if (activation != Epilogue::Activation::none) epilogue.bias = bias.data();

  const MinimalConvolution convolution(p, layout, ready, threads);
  Floats points(static_cast<size_t>(filter_points_size(p)), NAN), out(out_size(p), NAN);
  Floats space(static_cast<size_t>(convolution.workspace_size()), NAN);
  make_filter_points(p, filters.data(), layout, points.data());
  if (activation == Epilogue::Activation::clip) {  // the residual lies where the result goes
    out = residual;
    epilogue.residual = out.data();
  }
  convolution.run(data.data(), ready ? points.data() : filters.data(), epilogue, out.data(), space.data());
  const double tolerance = kTolerance * largest(want);
  for (size_t i = 0; i < want.size(); ++i) {
    if (epilogue.bias != nullptr) want[i] += bias[i % bias.size()];
    if (epilogue.residual != nullptr) want[i] += residual[i];
    want[i] = activated(want[i], epilogue);
  }
  CHECK(close(out, want, tolerance));
}

void check_filter_gradient(const WinogradProblem& p, const FilterLayout& layout, const std::vector<double>& sums,
                           int threads) {
  const Floats data = drawn(data_size(p), 5), out_grad = drawn(out_size(p), 6);
  std::vector<double> want(filter_size(p));
  for_filters(p, layout, [&](size_t place, size_t offset) { want[offset] = sums[place]; });
  const WinogradGradient made(p, threads);
  Floats gradient(filter_size(p), NAN), space(static_cast<size_t>(made.workspace_size()), NAN);
  made.run(data.data(), out_grad.data(), gradient.data(), layout, space.data());
  CHECK(close(gradient, want, kTolerance * largest(want)));
}

void every_geometry() {
  const WinogradProblem problems[] = {
      {1, 4, 4, 16, 4, 4, 16, 1, 1},     {2, 5, 7, 16, 3, 5, 32, 0, 0},   {1, 1, 1, 32, 1, 1, 16, 1, 1},
      {3, 9, 6, 48, 11, 8, 16, 2, 2},    {1, 6, 6, 16, 12, 10, 48, 4, 3}, {1, 13, 14, 80, 13, 14, 112, 1, 1},
      {2, 30, 31, 16, 29, 31, 16, 0, 1}, {1, 3, 3, 16, 1, 1, 144, 0, 0},  {1, 4, 4, 1040, 4, 4, 16, 1, 1},
  };
  for (const WinogradProblem& p : problems) {
    const FilterLayout rows{kFilter * kFilter, p.channels * kFilter * kFilter, kFilter, 1};
    const FilterLayout last{1, p.channels * kFilter * kFilter, p.channels * kFilter, p.channels};
    FilterLayout flipped{p.filters * kFilter * kFilter, 1, p.filters * kFilter, p.filters, true};
    const auto of_rows = convolved(p, rows), gradient = differentiated(p);
    for (int threads : {1, 2, 3}) {
      check_convolution(p, rows, of_rows, threads, Epilogue::Activation::none);
      check_filter_gradient(p, last, gradient, threads);
    }
    check_convolution(p, last, convolved(p, last), 1, Epilogue::Activation::relu);
    check_convolution(p, flipped, convolved(p, flipped), 1, Epilogue::Activation::leaky, true);
    check_convolution(p, rows, of_rows, 2, Epilogue::Activation::clip);
    check_filter_gradient(p, rows, gradient, 2);
  }
}

void large_filters() {  // where all threads work on one group
  const WinogradProblem problems[] = {{1, 40, 40, 160, 40, 40, 192, 1, 1}, {1, 11, 12, 256, 11, 12, 128, 1, 1}};
  for (const WinogradProblem& p : problems) {
    const FilterLayout last{1, p.channels * kFilter * kFilter, p.channels * kFilter, p.channels};
    const auto sums = convolved(p, last);
    for (bool ready : {false, true}) check_convolution(p, last, sums, 2, Epilogue::Activation::relu, ready);
    check_filter_gradient(p, last, differentiated(p), 2);
  }
}

void images_with_few_channels() {
  const ImageProblem problems[] = {{2, 9, 11, 3, 5, 6, 16, 7, 7, 2, 2, 3, 3}, {1, 6, 5, 1, 4, 3, 80, 3, 3, 1, 1, 0, 0},
                                   {1, 3, 2, 4, 9, 9, 32, 1, 2, 1, 1, 3, 4},  {3, 8, 8, 2, 2, 2, 16, 3, 3, 4, 4, 0, 0}};
  for (const ImageProblem& p : problems) {
    const FilterLayout last{1, p.taps(), p.row_taps(), p.channels};
    const auto size = [](int64_t n) { return static_cast<size_t>(n); };
    const Floats data = drawn(size(p.images * p.height * p.width * p.channels), 7);
    const Floats out_grad = drawn(size(p.images * p.out_height * p.out_width * p.filters), 8);
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
      CHECK(suits(p) && close(gradient, want, kTolerance * largest(want)));
    }
  }
}

void what_pays() {
  const WinogradProblem large{16, 56, 56, 64, 56, 56, 64, 1, 1}, point{1, 1, 1, 512, 1, 1, 512, 1, 1};
  CHECK(pays(large, true) && pays(large, false) && gradient_pays(large));
  CHECK(!pays(point, true) && !pays(point, false) && !gradient_pays(point));
  CHECK(possible({1, 8, 8, 512, 8, 8, 1024, 1, 1}) && !possible({1, 8, 8, 2048, 8, 8, 2048, 1, 1}));
  CHECK(!possible({1, 8, 8, 3, 8, 8, 64, 1, 1}) && !possible({1, 8, 8, 64, 8, 8, 10, 1, 1}));
}

}  // namespace

int main() {
  if (!uses_avx512()) {
    std::puts("skipped: the processor has no AVX-512");
    return 0;
  }
  return test::run({{"every geometry", every_geometry}, {"large filters", large_filters}, {"images with few channels", images_with_few_channels},
                    {"what pays", what_pays}});
}
