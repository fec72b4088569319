// SPDX-License-Identifier: Apache-2.0
#include "convolution/first_layer_gradient.hpp"

#include <algorithm>
#include <atomic>

#include "convolution/winograd/multiply.hpp"
#include "common/parallel.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kMostChannels = 4;
constexpr int64_t kMostSums = 1 << 16;  // floats: they stay in a core's own cache

}  // namespace

bool suits(const ImageProblem& p) {
  return uses_avx512() && p.channels <= kMostChannels && p.filters % kLanes == 0 &&
         p.taps() * p.filters <= kMostSums;
}

ImageGradient::ImageGradient(const ImageProblem& problem, int threads) : problem_(problem), threads_(threads) {}

// Of an image row with what its windows cover beyond its ends.
int64_t ImageGradient::row_size() const {
  return ((problem_.out_width - 1) * problem_.step_across + problem_.kernel_columns) * problem_.channels;
}

int64_t ImageGradient::space_size() const { return problem_.taps() * problem_.filters + row_size(); }

int64_t ImageGradient::workspace_size() const { return threads_ * space_size(); }

// Adds what one row of results gives to the sums (kernel row, tap of the row, filter).
void ImageGradient::add_row(const float* data, const float* out_grad, int64_t row, float* sums, float* padded) const {
  const ImageProblem& p = problem_;
  const int64_t image = row / p.out_height, top = row % p.out_height * p.step_down - p.pad_top;
  const int64_t left = p.pad_left * p.channels, length = p.width * p.channels;
  const int64_t from = std::clamp<int64_t>(-left, 0, length), to = std::clamp<int64_t>(row_size() - left, from, length);
  for (int64_t i = std::max<int64_t>(0, -top); i < std::min(p.kernel_rows, p.height - top); ++i) {
    const float* source = data + (image * p.height + top + i) * length;
    std::fill_n(padded, row_size(), 0.f);
    std::copy(source + from, source + to, padded + from + left);
    for (int64_t k = 0; k < p.filters; k += kPanel<float>) {
      multiply({padded, 1, p.step_across * p.channels}, out_grad + row * p.out_width * p.filters + k, p.filters,
               p.row_taps(), p.out_width, std::min(kPanel<float>, p.filters - k),
               sums + i * p.row_taps() * p.filters + k, p.filters, true);
    }
  }
}

void ImageGradient::run(const float* data, const float* out_grad, float* gradient, const FilterLayout& layout,
                        float* workspace) const {
  const ImageProblem& p = problem_;
  std::atomic<int> copies{0};
  const auto share = [&](int64_t begin, int64_t end, int thread) {
    float* sums = workspace + thread * space_size();  // as many as have a share, counted from 0
    copies.fetch_add(1);
    float* padded = sums + p.taps() * p.filters;
    std::fill_n(sums, p.taps() * p.filters, 0.f);
    for (int64_t row = begin; row < end; ++row) add_row(data, out_grad, row, sums, padded);
  };
  parallel_shares(p.images * p.out_height, share, threads_);
  for (int64_t tap = 0; tap < p.taps(); ++tap) {
    const int64_t i = tap / p.row_taps(), j = tap % p.row_taps() / p.channels, c = tap % p.channels;
    float* target = gradient + c * layout.input + i * layout.row + j * layout.column;
    for (int64_t k = 0; k < p.filters; ++k) {
      float sum = 0;
      for (int copy = 0; copy < copies; ++copy) sum += workspace[copy * space_size() + tap * p.filters + k];
      target[k * layout.output] = sum;
    }
  }
}

}  // namespace mx::cpu
