// SPDX-License-Identifier: Apache-2.0
#include "convolution/winograd_products.hpp"

#include <algorithm>
#include <utility>

#include "convolution/winograd/channel_order.hpp"

namespace mx::cpu {
namespace {

constexpr double kMostElements = 1e12;    // of a tensor of images: sizes of scratch memory do not overflow
constexpr int64_t kMostCopies = 1 << 17;  // elements that stay in the caches
constexpr int64_t kTilesOfThread = 64;    // that are enough for one

Images<double> data_of(const WinogradProblem& p) { return {p.images, p.channels, p.height * p.width}; }
Images<double> result_of(const WinogradProblem& p) { return {p.images, p.filters, p.out_height * p.out_width}; }
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

// What is computed at once: few images where the copies of all would leave the caches.
WinogradProblem part_of(WinogradProblem p, bool channels_last, int threads) {
  if (channels_last || data_of(p).size() + result_of(p).size() <= kMostCopies) return p;
  const int64_t tiles = p.tiles() / p.images;
  p.images = std::min(p.images, (kTilesOfThread * threads + tiles - 1) / tiles);
  return p;
}

// The last part, where it is smaller.
WinogradProblem rest_of(WinogradProblem part, int64_t images) {
  part.images = images % part.images;
  return part;
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
      channels_last_(channels_last), convolution_(part_, layout, !at_once(), threads) {
  if (const auto rest = rest_of(part_, images_); rest.images > 0) rest_.emplace(rest, layout, true, threads);
}

size_t WinogradProduct::bytes() const {
  const int64_t copies = channels_last_ ? 0 : data_of(part_).size() + result_of(part_).size();
  const int64_t filters = at_once() ? 0 : filter_points_size<double>(part_);
  return bytes_of(copies + filters + workspace_size());
}

int64_t WinogradProduct::workspace_size() const {
  return std::max(convolution_.workspace_size(), rest_ ? rest_->workspace_size() : 0);
}

void WinogradProduct::run(const double* source, const double* weight, const ConvolutionResult<double>& result,
                          double* scratch) const {
  Epilogue<double> epilogue;
  epilogue.bias = result.bias;
  if (channels_last_) {
    if (result.add) epilogue.residual = result.to;
    return convolution_.run(source, weight, epilogue, result.to, scratch);
  }
  double* const data = scratch + workspace_size();
  double* const made = data + data_of(part_).size();
  if (!at_once()) {
    double* const filters = made + result_of(part_).size();
    make_filter_points(part_, weight, layout_, filters);
    weight = filters;
  }
  for (int64_t image = 0; image < images_; image += part_.images) {
    const bool whole = image + part_.images <= images_;
    const WinogradProblem part = whole ? part_ : rest_of(part_, images_);
    const Images<double> images = data_of(part), results = result_of(part);
    double* const to = result.to + image * results.channels * results.area;
    images.to_channels_last(source + image * images.channels * images.area, data);
    if (result.add) {
      results.to_channels_last(to, made);
      epilogue.residual = made;
    }
    (whole ? convolution_ : *rest_).run(data, weight, epilogue, made, scratch);
    results.to_channels_first(made, to);
  }
}

std::optional<WinogradFilterGradient> WinogradFilterGradient::of(const ConvolutionGeometry& g, int threads) {
  const auto problem = problem_of(g);
  if (!problem || !gradient_pays(*problem)) return std::nullopt;
  return WinogradFilterGradient(*problem, layout_of(g), g.channels_last, threads);
}

size_t WinogradFilterGradient::bytes() const { return bytes_of(weights() + gradient_.workspace_size()); }

void WinogradFilterGradient::run(const double* large, const double* small, double* to, bool add,
                                 double* scratch) const {
  double* const made = scratch + gradient_.workspace_size();
  gradient_.run(large, small, add ? made : to, layout_, scratch);
  if (add) loops().add_scaled[1](to, made, 1.0, static_cast<size_t>(weights()));
}

}  // namespace mx::cpu
