// SPDX-License-Identifier: Apache-2.0
//
// The weights of a bin's samples are products of weights by row and by column: rows are mixed once per
// column of bins, and the mixed rows per bin.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <type_traits>

#include "common/clones.h"
#include "simd/loops.h"
#include "common/thread_pool.h"
#include "vision/regions.h"
#include "common/upcast.h"

namespace mx::vector {
namespace {

// One axis of one region: what of the map the bins read, with which weights.
template <class T>
struct Axis {
  std::vector<int64_t> begins;  // bins + 1
  std::vector<int64_t> places;  // of the map
  std::vector<T> weights;
  std::vector<int64_t> used;    // places, sorted, each once
  std::vector<int64_t> slots;   // of places among the used ones
};

// Means of bilinear samples: outside by more than one element they are zero.
template <class T>
Axis<T> axis_of(double start, double length, int64_t bins, int64_t wanted, int64_t extent) {
  Axis<T> axis;
  const double bin = length / static_cast<double>(bins);
  // Neither NaN nor a region far larger than any map may ask for samples without end: what lies outside
  // of the map adds nothing, and a mean over that many has no digits left.
  const double most = 1e6, samples = wanted > 0 ? static_cast<double>(wanted) : std::max(std::ceil(bin), 0.0);
  if (!(samples <= most))
    throw Error(MX_ERROR_VALUE, "[_contrib_ROIAlign] rois: " + std::to_string(samples) + " samples per bin");
  const auto count = static_cast<int64_t>(samples);
  std::vector<std::pair<int64_t, double>> taps;
  axis.begins.push_back(0);
  for (int64_t i = 0; i < bins; ++i) {
    taps.clear();
    for (int64_t k = 0; k < count; ++k) {
      const double offset = (static_cast<double>(k) + 0.5) / samples;
      double x = start + (static_cast<double>(i) + offset) * bin;
      if (!(x >= -1 && x <= static_cast<double>(extent))) continue;
      x = std::max(x, 0.0);
      int64_t low = static_cast<int64_t>(x);
      if (low >= extent - 1) {
        low = extent - 1;
        x = static_cast<double>(low);
      }
      const double share = x - static_cast<double>(low);
      const auto add = [&](int64_t place, double weight) {
        if (!taps.empty() && taps.back().first == place) {
          taps.back().second += weight;
        } else if (taps.size() > 1 && taps[taps.size() - 2].first == place) {
          taps[taps.size() - 2].second += weight;
        } else {
          taps.emplace_back(place, weight);
        }
      };
      add(low, (1 - share) / samples);
      add(std::min(low + 1, extent - 1), share / samples);
    }
    for (const auto& [place, weight] : taps) {
      axis.places.push_back(place);
      axis.weights.push_back(static_cast<T>(weight));
    }
    axis.begins.push_back(static_cast<int64_t>(axis.places.size()));
  }
  axis.used = axis.places;
  std::sort(axis.used.begin(), axis.used.end());
  axis.used.erase(std::unique(axis.used.begin(), axis.used.end()), axis.used.end());
  for (int64_t place : axis.places)
    axis.slots.push_back(std::lower_bound(axis.used.begin(), axis.used.end(), place) - axis.used.begin());
  return axis;
}

// ---- many channels side by side ----

constexpr int64_t kChannels = 64;  // a row of the map and its bins stay in the nearest cache
constexpr int64_t kSparse = 4;     // elements of a row per used one, above which rows are not brought along whole

// to[b][c] = sum of weights[e] * from[places[e] - first][c] over the entries of bin b.
MX_CLONES void mix_channels(const float* from, const int64_t* begins, const int64_t* places, int64_t first,
                            const float* weights, int64_t bins, float* to, int64_t n) {
  for (int64_t b = 0; b < bins; ++b, to += n) {
    for (int64_t c = 0; c < n; ++c) to[c] = 0;
    for (int64_t e = begins[b]; e < begins[b + 1]; ++e) {
      const float* x = from + (places[e] - first) * n;
      const float weight = weights[e];
      for (int64_t c = 0; c < n; ++c) to[c] += weight * x[c];
    }
  }
}

template <class T>
struct Region {
  int64_t image;  // below 0: none
  Axis<T> rows, columns;
};

class AlignPlan : public WidePlan {
 public:
  // Where data and regions are among the specs.
  AlignPlan(std::vector<Spec> inputs, std::vector<Spec> outputs, const Spec& data, const Spec& result,
            size_t regions_input, const AlignOptions& options)
      : WidePlan(inputs, outputs, data.dtype, 16 * result.elements),
        o_(options),
        regions_input_(regions_input),
        images_(data.shape[0]),
        channels_(data.shape[1]),
        height_(data.shape[2]),
        width_(data.shape[3]),
        regions_(result.shape[0]),
        made_(result.shape[1]) {}

 protected:
  int64_t bins() const { return o_.region.height * o_.region.width; }

  // The channel of the map that bin (i, j) of channel c reads.
  int64_t channel(int64_t c, int64_t i, int64_t j) const {
    return o_.sensitive ? (c * o_.region.height + i) * o_.region.width + j : c;
  }

  template <class T>
  Region<T> region(const T* at) const {
    if (!(at[0] >= 0)) {
      if (at[0] <= -1) return {-1, {}, {}};
      if (!(at[0] > -1)) throw Error(MX_ERROR_INDEX, "[_contrib_ROIAlign] rois: an image that is no number");
    }
    if (!(at[0] < static_cast<T>(images_)))
      throw Error(MX_ERROR_INDEX, "[_contrib_ROIAlign] rois: expected images below " + std::to_string(images_) +
                                      ", got " + std::to_string(at[0]));
    const double offset = o_.aligned ? 0.5 : 0.0;
    double edge[4];
    for (int k = 0; k < 4; ++k) edge[k] = static_cast<double>(at[k + 1]) * o_.region.scale - offset;
    double width = edge[2] - edge[0], height = edge[3] - edge[1];
    if (!o_.aligned) {
      width = std::max(width, 1.0);
      height = std::max(height, 1.0);
    }
    return {static_cast<int64_t>(at[0]), axis_of<T>(edge[1], height, o_.region.height, o_.samples, height_),
            axis_of<T>(edge[0], width, o_.region.width, o_.samples, width_)};
  }

  const AlignOptions o_;
  const size_t regions_input_;
  const int64_t images_, channels_, height_, width_, regions_, made_;
};

class AlignForward final : public AlignPlan {
 public:
  AlignForward(std::vector<Spec> inputs, std::vector<Spec> outputs, const AlignOptions& options)
      : AlignPlan(inputs, outputs, inputs[0], outputs[0], 1, options) {}

 protected:
  void execute(const Call& call) const override { type_ == F64 ? compute<double>(call) : compute<float>(call); }

 private:
  template <class T>
  void compute(const Call& call) const {
    Result<T> output(*this, call, 0);
    if (output.data() == nullptr) return;
    const T *data = read<T>(call, 0), *regions = read<T>(call, 1);
    parallel(threads(call), regions_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) one(data, region(regions + 5 * r), output.data() + r * made_ * bins());
    });
    output.deliver();
  }

  template <class T>
  void one(const T* data, const Region<T>& region, T* to) const {
    if (region.image < 0) return static_cast<void>(std::fill_n(to, made_ * bins(), T(0)));
    const T* image = data + region.image * channels_ * height_ * width_;
    const int64_t bins_x = o_.region.width;
    if constexpr (std::is_same_v<T, float>)
      if (!o_.sensitive && dense(region.columns)) return side_by_side(image, region, to);
    std::vector<T> mixed(region.rows.used.size() * static_cast<size_t>(bins_x));
    for (int64_t c = 0; c < made_; ++c) {
      if (!o_.sensitive) mix(image + c * height_ * width_, region, mixed.data());
      for (int64_t i = 0; i < o_.region.height; ++i)
        for (int64_t j = 0; j < bins_x; ++j) {
          T sum = T(0);
          for (auto e = static_cast<size_t>(region.rows.begins[static_cast<size_t>(i)]);
               e < static_cast<size_t>(region.rows.begins[static_cast<size_t>(i) + 1]); ++e)
            sum += region.rows.weights[e] *
                   (o_.sensitive ? row(image + (channel(c, i, j) * height_ + region.rows.places[e]) * width_, region, j)
                                 : mixed[static_cast<size_t>(region.rows.slots[e] * bins_x + j)]);
          *to++ = sum;
        }
    }
  }

  static bool dense(const Axis<float>& columns) {
    return !columns.used.empty() &&
           columns.used.back() - columns.used.front() < kSparse * static_cast<int64_t>(columns.used.size());
  }

  // Rows of the map are turned so that channels are neighbours, mixed, and the bins turned back.
  void side_by_side(const float* image, const Region<float>& region, float* to) const {
    const Axis<float>&rows = region.rows, &columns = region.columns;
    const int64_t bins_x = o_.region.width, first = columns.used.front(), span = columns.used.back() - first + 1;
    const LoopTable& table = loops();
    std::vector<float> turned(static_cast<size_t>(span * kChannels)), result(static_cast<size_t>(bins() * kChannels));
    std::vector<float> mixed(rows.used.size() * static_cast<size_t>(bins_x * kChannels));
    for (int64_t c = 0; c < made_; c += kChannels) {
      const int64_t n = std::min(kChannels, made_ - c);
      float* next = mixed.data();
      for (int64_t place : rows.used) {
        table.transpose32(turned.data(), n, image + (c * height_ + place) * width_ + first, height_ * width_, span, n);
        mix_channels(turned.data(), columns.begins.data(), columns.places.data(), first, columns.weights.data(), bins_x,
                     next, n);
        next += bins_x * n;
      }
      mix_channels(mixed.data(), rows.begins.data(), rows.slots.data(), 0, rows.weights.data(), o_.region.height,
                   result.data(), bins_x * n);
      table.transpose32(to + c * bins(), bins(), result.data(), n, n, bins());
    }
  }

  // Bin j of one row of the map.
  template <class T>
  static T row(const T* from, const Region<T>& region, int64_t j) {
    T sum = T(0);
    for (auto e = static_cast<size_t>(region.columns.begins[static_cast<size_t>(j)]);
         e < static_cast<size_t>(region.columns.begins[static_cast<size_t>(j) + 1]); ++e)
      sum += region.columns.weights[e] * from[region.columns.places[e]];
    return sum;
  }

  template <class T>
  void mix(const T* map, const Region<T>& region, T* to) const {
    for (int64_t place : region.rows.used)
      for (int64_t j = 0; j < o_.region.width; ++j) *to++ = row(map + place * width_, region, j);
  }
};

class AlignBackward final : public AlignPlan {
 public:
  AlignBackward(std::vector<Spec> inputs, std::vector<Spec> outputs, const AlignOptions& options)
      : AlignPlan(inputs, outputs, outputs[0], inputs[0], 2, options) {}

 protected:
  void execute(const Call& call) const override { type_ == F64 ? compute<double>(call) : compute<float>(call); }

 private:
  // Threads share channels: the order of additions is fixed.
  template <class T>
  void compute(const Call& call) const {
    Result<T> grad(*this, call, 0);
    if (grad.data() == nullptr) return;
    const T *head = read<T>(call, 0), *given = read<T>(call, 2);
    std::vector<Region<T>> regions;
    for (int64_t r = 0; r < regions_; ++r) regions.push_back(region(given + 5 * r));
    std::fill_n(grad.data(), outputs_[0].elements, T(0));
    parallel(threads(call), made_, 1, [&](int64_t begin, int64_t end) {
      std::vector<T> mixed;
      for (int64_t c = begin; c < end; ++c)
        for (int64_t r = 0; r < regions_; ++r)
          if (regions[static_cast<size_t>(r)].image >= 0)
            one(regions[static_cast<size_t>(r)], head + (r * made_ + c) * bins(), c, grad.data(), mixed);
    });
    grad.deliver();
  }

  template <class T>
  void one(const Region<T>& region, const T* head, int64_t c, T* grad, std::vector<T>& mixed) const {
    T* image = grad + region.image * channels_ * height_ * width_;
    const int64_t bins_x = o_.region.width;
    mixed.assign(region.rows.used.size() * static_cast<size_t>(bins_x), T(0));
    for (int64_t i = 0; i < o_.region.height; ++i)
      for (auto e = static_cast<size_t>(region.rows.begins[static_cast<size_t>(i)]);
           e < static_cast<size_t>(region.rows.begins[static_cast<size_t>(i) + 1]); ++e)
        for (int64_t j = 0; j < bins_x; ++j) {
          const T share = region.rows.weights[e] * head[i * bins_x + j];
          if (o_.sensitive) {
            spread(image + (channel(c, i, j) * height_ + region.rows.places[e]) * width_, region, j, share);
          } else {
            mixed[static_cast<size_t>(region.rows.slots[e] * bins_x + j)] += share;
          }
        }
    if (o_.sensitive) return;
    const T* share = mixed.data();
    for (int64_t place : region.rows.used)
      for (int64_t j = 0; j < bins_x; ++j)
        spread(image + (c * height_ + place) * width_, region, j, *share++);
  }

  template <class T>
  static void spread(T* to, const Region<T>& region, int64_t j, T share) {
    for (auto e = static_cast<size_t>(region.columns.begins[static_cast<size_t>(j)]);
         e < static_cast<size_t>(region.columns.begins[static_cast<size_t>(j) + 1]); ++e)
      to[region.columns.places[e]] += region.columns.weights[e] * share;
  }
};

void check_align(const Spec& data, const Spec& regions, const Spec& result, const AlignOptions& o) {
  const int64_t bins = o.region.height * o.region.width;
  fits(data.shape.size() == 4 && result.shape.size() == 4 && o.region.height > 0 && o.region.width > 0 &&
                    data.shape[2] > 0 && data.shape[3] > 0 && regions.elements == result.shape[0] * 5 &&
                    result.shape[2] == o.region.height && result.shape[3] == o.region.width &&
                    data.shape[1] == result.shape[1] * (o.sensitive ? bins : 1),
       "_contrib_ROIAlign");
}

}  // namespace

PlanPtr make_roi_align_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const AlignOptions& o) {
  if (inputs.size() != 2 || outputs.size() != 1) throw Error(MX_ERROR_VALUE, "[_contrib_ROIAlign] expected two inputs");
  check_align(inputs[0], inputs[1], outputs[0], o);
  return std::make_unique<AlignForward>(std::move(inputs), std::move(outputs), o);
}

PlanPtr make_roi_align_backward_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const AlignOptions& o) {
  if (inputs.size() != 3 || outputs.size() != 1)
    throw Error(MX_ERROR_VALUE, "[_contrib_ROIAlign] expected three inputs");
  check_align(outputs[0], inputs[2], inputs[0], o);
  return std::make_unique<AlignBackward>(std::move(inputs), std::move(outputs), o);
}

}  // namespace mx::vector
