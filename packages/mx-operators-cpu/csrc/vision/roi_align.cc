// SPDX-License-Identifier: Apache-2.0
//
// The weights of a bin's samples are products of weights by row and by column: rows are mixed once per
// column of bins, and the mixed rows per bin.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "common/clones.hpp"
#include "simd/loops.hpp"
#include "common/parallel.hpp"
#include "vision/region_plan.hpp"

namespace mx::cpu {
namespace {

// One axis of one region: what of the map the bins read, with which weights.
template <class T>
struct Axis {
  Span<int64_t> begins;  // bins + 1
  Span<int64_t> places;  // of the map
  Span<T> weights;
  Span<int64_t> used;    // places, sorted, each once
  Span<int64_t> slots;   // of places among the used ones
};

// The most places that a bin reads along an axis: points that go one way read each element at most twice.
int64_t most_places(int64_t samples, int64_t extent) {
  return 2 * (samples > 0 ? std::min(samples, extent) : extent);
}

size_t axis_bytes(int64_t bins, int64_t samples, int64_t extent) {
  const auto each = static_cast<size_t>(most_places(samples, extent)), all = static_cast<size_t>(bins) * each;
  return arena_bytes({static_cast<size_t>(bins + 1) * sizeof(int64_t), all * sizeof(int64_t), all * sizeof(double),
                      all * sizeof(int64_t), all * sizeof(int64_t), each * sizeof(double)});
}

// Means of bilinear samples: outside by more than one element they are zero.
template <class T>
Axis<T> axis_of(Arena& arena, double start, double length, int64_t bins, int64_t wanted, int64_t extent) {
  const double bin = length / static_cast<double>(bins);
  // Neither NaN nor a region far larger than any map may ask for samples without end: what lies outside
  // of the map adds nothing, and a mean over that many has no digits left.
  const double most = 1e6, samples = wanted > 0 ? static_cast<double>(wanted) : std::max(std::ceil(bin), 0.0);
  if (!(samples <= most))
    throw Error(MX_ERROR_VALUE, "[_contrib_ROIAlign] rois: " + std::to_string(samples) + " samples per bin");
  const auto count = static_cast<int64_t>(samples);
  const auto each = static_cast<size_t>(most_places(wanted, extent)), all = static_cast<size_t>(bins) * each;
  const Span<int64_t> begins = arena.take<int64_t>(static_cast<size_t>(bins + 1));
  const Span<int64_t> places = arena.take<int64_t>(all);
  const Span<T> weights = arena.take<T>(all);
  const Span<double> exact = arena.take<double>(each);  // weights of one bin
  size_t n = 0;
  begins[0] = 0;
  for (int64_t i = 0; i < bins; ++i) {
    const size_t first = n;
    const auto add = [&](int64_t place, double weight) {
      for (size_t back = 1; back <= std::min<size_t>(2, n - first); ++back)
        if (places[n - back] == place) return static_cast<void>(exact[n - back - first] += weight);
      places[n] = place;
      exact[n++ - first] = weight;
    };
    for (int64_t k = 0; k < count; ++k) {
      const double offset = (static_cast<double>(k) + 0.5) / samples;
      BilinearPoint at;
      if (!bilinear_point(start + (static_cast<double>(i) + offset) * bin, extent, &at)) continue;
      add(at.low, (1 - at.share) / samples);
      add(at.high, at.share / samples);
    }
    for (size_t e = first; e < n; ++e) weights[e] = static_cast<T>(exact[e - first]);
    begins[static_cast<size_t>(i) + 1] = static_cast<int64_t>(n);
  }
  const Span<int64_t> used = arena.take<int64_t>(n), slots = arena.take<int64_t>(n);
  std::copy_n(places.data(), n, used.data());
  std::sort(used.begin(), used.end());
  const auto distinct = static_cast<size_t>(std::unique(used.begin(), used.end()) - used.begin());
  for (size_t e = 0; e < n; ++e)
    slots[e] = std::lower_bound(used.begin(), used.begin() + distinct, places[e]) - used.begin();
  return {begins, {places.data(), n}, {weights.data(), n}, {used.data(), distinct}, slots};
}

// ---- many channels side by side ----

constexpr int64_t kChannels = 64;  // a row of the map and its bins stay in the nearest cache
constexpr int64_t kSparse = 4;     // elements of a row per used one, above which rows are not brought along whole

// to[b][c] = sum of weights[e] * from[places[e] - first][c] over the entries of bin b.
MX_CLONES(void, mix_channels, (const float* from, const int64_t* begins, const int64_t* places, int64_t first,
                               const float* weights, int64_t bins, float* to, int64_t n),
          (from, begins, places, first, weights, bins, to, n)) {
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

class AlignPlan : public RegionPlan {
 public:
  // Where data and regions are among the specs.
  AlignPlan(std::vector<Spec> inputs, std::vector<Spec> outputs, const Spec& data, const Spec& result,
            const AlignOptions& options)
      : RegionPlan(inputs, outputs, "_contrib_ROIAlign", data, result, options.region), o_(options) {}

 protected:
  // The channel of the map that bin (i, j) of channel c reads.
  int64_t channel(int64_t c, int64_t i, int64_t j) const {
    return o_.sensitive ? (c * region_.height + i) * region_.width + j : c;
  }

  size_t axes_bytes() const {
    return axis_bytes(region_.height, o_.samples, height_) + axis_bytes(region_.width, o_.samples, width_);
  }
  // Rows, mixed for every column of bins.
  size_t mixed() const {
    const int64_t rows = std::min(height_, region_.height * most_places(o_.samples, height_));
    return static_cast<size_t>(rows * region_.width);
  }

  template <class T>
  Region<T> region(Arena& arena, const T* at) const {
    const int64_t image = image_or_padding(static_cast<double>(at[0]));
    if (image < 0) return {-1, {}, {}};
    const double offset = o_.aligned ? 0.5 : 0.0;
    double edge[4];
    for (int k = 0; k < 4; ++k) edge[k] = static_cast<double>(at[k + 1]) * region_.scale - offset;
    double width = edge[2] - edge[0], height = edge[3] - edge[1];
    if (!o_.aligned) {
      width = std::max(width, 1.0);
      height = std::max(height, 1.0);
    }
    const Axis<T> rows = axis_of<T>(arena, edge[1], height, region_.height, o_.samples, height_);
    return {image, rows, axis_of<T>(arena, edge[0], width, region_.width, o_.samples, width_)};
  }

  const AlignOptions o_;
};

class AlignForward final : public AlignPlan {
 public:
  AlignForward(std::vector<Spec> inputs, std::vector<Spec> outputs, const AlignOptions& options)
      : AlignPlan(inputs, outputs, inputs[0], outputs[0], options) {
    const auto channels = static_cast<size_t>(kChannels) * sizeof(float);
    const size_t side_by_side = arena_bytes({static_cast<size_t>(width_) * channels, static_cast<size_t>(bins()) * channels,
                                             mixed() * channels});
    one_ = add_thread_scratch(axes_bytes() + std::max(side_by_side, arena_bytes({mixed() * sizeof(double)})));
  }

 protected:
  void execute(const Call& call) const override { type_ == F64 ? compute<double>(call) : compute<float>(call); }

 private:
  template <class T>
  void compute(const Call& call) const {
    Result<T> output(*this, call, 0);
    if (output.data() == nullptr) return;
    const T *data = read<T>(call, 0), *regions = read<T>(call, 1);
    parallel_for(regions_, 1, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t r = begin; r < end; ++r) {
        Arena arena = one_.arena(call, thread);
        const Region<T> read = region(arena, regions + 5 * r);
        one(arena, data, read, output.data() + r * made_ * bins());
      }
    });
    output.deliver();
  }

  template <class T>
  void one(Arena& arena, const T* data, const Region<T>& region, T* to) const {
    if (region.image < 0) return static_cast<void>(std::fill_n(to, made_ * bins(), T(0)));
    const T* image = data + region.image * channels_ * height_ * width_;
    const int64_t bins_x = region_.width;
    if constexpr (std::is_same_v<T, float>)
      if (!o_.sensitive && dense(region.columns)) return side_by_side(arena, image, region, to);
    const Span<T> mixed = arena.take<T>(region.rows.used.size() * static_cast<size_t>(bins_x));
    for (int64_t c = 0; c < made_; ++c) {
      if (!o_.sensitive) mix(image + c * height_ * width_, region, mixed.data());
      for (int64_t i = 0; i < region_.height; ++i)
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
    return columns.used.size() > 0 &&
           columns.used.back() - columns.used.front() < kSparse * static_cast<int64_t>(columns.used.size());
  }

  // Rows of the map are transposed so that channels are neighbours, mixed, and the bins transposed back.
  void side_by_side(Arena& arena, const float* image, const Region<float>& region, float* to) const {
    const Axis<float>&rows = region.rows, &columns = region.columns;
    const int64_t bins_x = region_.width, first = columns.used.front(), span = columns.used.back() - first + 1;
    const LoopTable& table = loops();
    const Span<float> transposed = arena.take<float>(static_cast<size_t>(span * kChannels));
    const Span<float> result = arena.take<float>(static_cast<size_t>(bins() * kChannels));
    const Span<float> mixed = arena.take<float>(rows.used.size() * static_cast<size_t>(bins_x * kChannels));
    for (int64_t c = 0; c < made_; c += kChannels) {
      const int64_t n = std::min(kChannels, made_ - c);
      float* next = mixed.data();
      for (int64_t place : rows.used) {
        table.transpose32(transposed.data(), n, image + (c * height_ + place) * width_ + first, height_ * width_, span, n);
        mix_channels(transposed.data(), columns.begins.data(), columns.places.data(), first, columns.weights.data(), bins_x,
                     next, n);
        next += bins_x * n;
      }
      mix_channels(mixed.data(), rows.begins.data(), rows.slots.data(), 0, rows.weights.data(), region_.height,
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
      for (int64_t j = 0; j < region_.width; ++j) *to++ = row(map + place * width_, region, j);
  }

  PerThread one_;
};

class AlignBackward final : public AlignPlan {
 public:
  AlignBackward(std::vector<Spec> inputs, std::vector<Spec> outputs, const AlignOptions& options)
      : AlignPlan(inputs, outputs, outputs[0], inputs[0], options),
        one_(add_thread_scratch(axes_bytes() + arena_bytes({mixed() * sizeof(double)}))) {}

 protected:
  void execute(const Call& call) const override { type_ == F64 ? compute<double>(call) : compute<float>(call); }

 private:
  // Threads share channels: the order of additions is fixed.
  template <class T>
  void compute(const Call& call) const {
    Result<T> grad(*this, call, 0);
    if (grad.data() == nullptr) return;
    const T *head = read<T>(call, 0), *given = read<T>(call, 2);
    std::fill_n(grad.data(), outputs_[0].size(), T(0));
    parallel_shares(std::max<int64_t>(made_, 1), [&](int64_t begin, int64_t end, int thread) {
      for (int64_t r = 0; r < regions_; ++r) {
        Arena arena = one_.arena(call, thread);
        const Region<T> read = region(arena, given + 5 * r);
        if (read.image < 0) continue;
        const Span<T> mixed = arena.take<T>(read.rows.used.size() * static_cast<size_t>(region_.width));
        for (int64_t c = begin; c < std::min(end, made_); ++c)
          one(read, head + (r * made_ + c) * bins(), c, grad.data(), mixed);
      }
    });
    grad.deliver();
  }

  template <class T>
  void one(const Region<T>& region, const T* head, int64_t c, T* grad, Span<T> mixed) const {
    T* image = grad + region.image * channels_ * height_ * width_;
    const int64_t bins_x = region_.width;
    std::fill(mixed.begin(), mixed.end(), T(0));
    for (int64_t i = 0; i < region_.height; ++i)
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

  const PerThread one_;
};

void check_align(const Spec& data, const Spec& regions, const Spec& result, const AlignOptions& o) {
  const int64_t bins = o.region.height * o.region.width;
  fits(data.shape.size() == 4 && result.shape.size() == 4 && o.region.height > 0 && o.region.width > 0 &&
                    data.shape[2] > 0 && data.shape[3] > 0 && regions.size() == result.shape[0] * 5 &&
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

}  // namespace mx::cpu
