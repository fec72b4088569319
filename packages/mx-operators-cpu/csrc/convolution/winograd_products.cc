// SPDX-License-Identifier: Apache-2.0
#include "convolution/winograd_products.hpp"

#include <algorithm>
#include <utility>

#include "common/parallel.hpp"

namespace mx::cpu {
namespace {

constexpr double kMostElements = 1e12;    // of a tensor of images: sizes of scratch memory do not overflow
constexpr int64_t kPositions = 64;        // that are transposed at once
constexpr int64_t kGrain = 4;             // of those, for a thread
constexpr int64_t kMostCopies = 1 << 17;  // elements that are copied at once, where one image is enough for all threads
constexpr int64_t kTilesOfThread = 24;    // that are enough for one

// A tensor of images, copied from one order of its channels to the other.
struct Images {
  int64_t images, channels, area;

  int64_t size() const { return images * channels * area; }

  void to_channels_last(const double* from, double* to) const {
    for_blocks([=](int64_t image, int64_t first, int64_t n) {
      loops().transpose64(to + (image + first) * channels, channels, from + image * channels + first, area, n,
                          channels);
    });
  }
  void to_channels_first(const double* from, double* to) const {
    for_blocks([=](int64_t image, int64_t first, int64_t n) {
      loops().transpose64(to + image * channels + first, area, from + (image + first) * channels, channels, channels,
                          n);
    });
  }

 private:
  // Calls body(image, first, n) for n positions of an image from `first` on; `image`: positions of those before it.
  template <class Body>
  void for_blocks(const Body& body) const {
    const int64_t blocks = (area + kPositions - 1) / kPositions;
    parallel_for(images * blocks, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % blocks * kPositions;
        body(i / blocks * area, first, std::min(kPositions, area - first));
      }
    });
  }
};

Images data_of(const WinogradProblem& p) { return {p.images, p.channels, p.height * p.width}; }
Images result_of(const WinogradProblem& p) { return {p.images, p.filters, p.out_height * p.out_width}; }
size_t bytes_of(int64_t elements) { return static_cast<size_t>(elements) * sizeof(double); }

// Whether a tensor has at most kMostElements.
bool few(int64_t images, int64_t channels, int64_t height, int64_t width) {
  return static_cast<double>(images) * static_cast<double>(channels) * static_cast<double>(height) *
             static_cast<double>(width) <= kMostElements;
}

// From the large tensor to the small one; nothing where the algorithm does not apply.
std::optional<WinogradProblem> problem_of(const ConvolutionGeometry& g) {
  const ConvolutionAxis &depth = g.axes[0], &rows = g.axes[1], &columns = g.axes[2];
  if (!g.winograd || g.groups != 1 || depth.large != 1 || depth.small != 1 || depth.kernel != 1 || depth.pad != 0)
    return std::nullopt;
  for (const ConvolutionAxis& axis : {rows, columns})
    if (axis.kernel != kFilter || axis.stride != 1 || axis.dilate != 1) return std::nullopt;
  const WinogradProblem problem{g.batch,       rows.large, columns.large, g.channels, rows.small,
                                columns.small, g.filters,  rows.pad,      columns.pad};
  if (!few(problem.images, problem.channels, problem.height, problem.width)) return std::nullopt;
  if (!few(problem.images, problem.filters, problem.out_height, problem.out_width)) return std::nullopt;
  if (!possible<double>(problem)) return std::nullopt;
  return problem;
}

FilterLayout layout_of(const ConvolutionGeometry& g) {
  if (g.channels_last) return {1, g.window(), kFilter * g.channels, g.channels};
  return {kFilter * kFilter, g.window(), kFilter, 1};
}

// What is computed at once: one image where the copies of all would leave the caches.
WinogradProblem part_of(WinogradProblem p, bool channels_last, int threads) {
  const bool stays = data_of(p).size() + result_of(p).size() <= kMostCopies;
  if (!channels_last && !stays && p.tiles() / p.images >= kTilesOfThread * threads) p.images = 1;
  return p;
}

}  // namespace

std::optional<WinogradProduct> WinogradProduct::of(const ConvolutionGeometry& g, bool to_large, int threads) {
  const auto found = problem_of(g);
  if (!found) return std::nullopt;
  const WinogradProblem problem = to_large ? found->of_data_gradient() : *found;
  if (!pays(problem, false)) return std::nullopt;
  FilterLayout layout = layout_of(g);
  if (to_large) std::swap(layout.input, layout.output), layout.flipped = true;
  return WinogradProduct(problem, layout, g.channels_last, threads);
}

WinogradProduct::WinogradProduct(const WinogradProblem& problem, const FilterLayout& layout, bool channels_last,
                                 int threads)
    : images_(problem.images), part_(part_of(problem, channels_last, threads)), layout_(layout),
      channels_last_(channels_last), convolution_(part_, layout, !at_once(), threads) {}

size_t WinogradProduct::bytes() const {
  const int64_t copies = channels_last_ ? 0 : data_of(part_).size() + result_of(part_).size();
  const int64_t filters = at_once() ? 0 : filter_points_size<double>(part_);
  return bytes_of(copies + filters + convolution_.workspace_size());
}

void WinogradProduct::run(const double* source, const double* weight, const ConvolutionResult& result,
                          double* scratch) const {
  Epilogue<double> epilogue;
  epilogue.bias = result.bias;
  if (channels_last_) {
    if (result.add) epilogue.residual = result.to;
    return convolution_.run(source, weight, epilogue, result.to, scratch);
  }
  const Images images = data_of(part_), results = result_of(part_);
  double* const data = scratch + convolution_.workspace_size();
  double* const made = data + images.size();
  if (!at_once()) {
    double* const filters = made + results.size();
    make_filter_points(part_, weight, layout_, filters);
    weight = filters;
  }
  for (int64_t image = 0; image < images_; image += part_.images) {
    double* const to = result.to + image * results.channels * results.area;
    images.to_channels_last(source + image * images.channels * images.area, data);
    if (result.add) {
      results.to_channels_last(to, made);
      epilogue.residual = made;
    }
    convolution_.run(data, weight, epilogue, made, scratch);
    results.to_channels_first(made, to);
  }
}

std::optional<WinogradFilterGradient> WinogradFilterGradient::of(const ConvolutionGeometry& g, int threads) {
  const auto problem = problem_of(g);
  if (!problem || !gradient_pays(*problem)) return std::nullopt;
  return WinogradFilterGradient(*problem, layout_of(g), g.channels_last, threads);
}

size_t WinogradFilterGradient::bytes() const {
  const int64_t copies = channels_last_ ? 0 : data_of(problem_).size() + result_of(problem_).size();
  return bytes_of(copies + weights() + gradient_.workspace_size());
}

void WinogradFilterGradient::run(const double* large, const double* small, double* to, bool add,
                                 double* scratch) const {
  double* const made = scratch + gradient_.workspace_size();
  if (!channels_last_) {
    const Images images = data_of(problem_), results = result_of(problem_);
    double* const data = made + weights();
    double* const heads = data + images.size();
    images.to_channels_last(large, data);
    results.to_channels_last(small, heads);
    large = data, small = heads;
  }
  gradient_.run(large, small, add ? made : to, layout_, scratch);
  if (add) loops().add_scaled[1](to, made, 1.0, static_cast<size_t>(weights()));
}

}  // namespace mx::cpu
