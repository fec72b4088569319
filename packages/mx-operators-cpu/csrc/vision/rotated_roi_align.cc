// SPDX-License-Identifier: Apache-2.0
//
// Rotated regions: the samples of a bin lie on no common rows, so each has corners of its own.
#include <algorithm>
#include <cmath>

#include "common/parallel.hpp"
#include "vision/region_plan.hpp"

namespace mx::cpu {
namespace {

const char* const kName = "_contrib_RROIAlign";
constexpr double kRadian = 3.14159265358979323846 / 180;
constexpr double kMostSamples = 1e6;   // of a region; a mean over more of them has no digits left
constexpr int64_t kMostCorners = 16384;  // that are applied together

// Bins [first, first + begins.size()) of a region: what they read of the map, with which weights.  The last bin may go
// on after it.
template <class T>
struct Corners {
  int64_t first;
  FixedList<int64_t> begins;  // of each bin, among the places
  FixedList<int32_t> places;
  FixedList<T> weights;

  // Calls visit(bin, place, weight) for every corner, bin by bin.
  template <class Visit>
  void each(const Visit& visit) const {
    for (size_t b = 0; b < begins.size(); ++b) {
      const auto end = b + 1 < begins.size() ? static_cast<size_t>(begins[b + 1]) : places.size();
      for (auto e = static_cast<size_t>(begins[b]); e < end; ++e)
        visit(first + static_cast<int64_t>(b), places[e], weights[e]);
    }
  }
};

class RotatedPlan : public RegionPlan {
 public:
  RotatedPlan(std::vector<Spec> inputs, std::vector<Spec> outputs, const Spec& data, const Spec& result,
              const RegionOptions& region, int64_t samples)
      : RegionPlan(inputs, outputs, kName, data, result, region), samples_(samples) {}

 protected:
  // Corners that are applied together: those of a region, unless they are many or their number is not known.
  size_t most_corners() const {
    const double all = 4.0 * static_cast<double>(samples_) * static_cast<double>(samples_) * static_cast<double>(bins());
    return static_cast<size_t>(samples_ > 0 && all < kMostCorners ? all : kMostCorners);
  }
  size_t corners_bytes() const {
    return arena_bytes({static_cast<size_t>(bins()) * sizeof(int64_t), most_corners() * sizeof(int32_t),
                        most_corners() * sizeof(double)});
  }

  // Calls apply(corners) for all samples of the region at `at` in its order, as many at a time as the arena holds.
  template <class T, class Apply>
  void each_corners(Arena arena, const T* at, const Apply& apply) const {
    const double width = std::max(at[3] * region_.scale, 1.0), height = std::max(at[4] * region_.scale, 1.0);
    const double x0 = at[1] * region_.scale, y0 = at[2] * region_.scale;
    const double angle = static_cast<double>(at[5]) * kRadian, cosine = std::cos(angle), sine = std::sin(angle);
    const double bin_y = height / static_cast<double>(region_.height);
    const double bin_x = width / static_cast<double>(region_.width);
    const double rows = samples_ > 0 ? static_cast<double>(samples_) : std::ceil(bin_y);
    const double columns = samples_ > 0 ? static_cast<double>(samples_) : std::ceil(bin_x);
    if (!(rows * columns * static_cast<double>(bins()) <= kMostSamples))
      refuse_region(MX_ERROR_VALUE, std::to_string(rows) + " x " + std::to_string(columns) + " samples per bin");
    const Corners<T> empty{0, arena.list<int64_t>(static_cast<size_t>(bins())), arena.list<int32_t>(most_corners()),
                           arena.list<T>(most_corners())};
    Corners<T> corners = empty;
    const auto begin_with = [&](int64_t bin) {
      corners = empty;
      corners.first = bin;
      corners.begins.push_back(0);
    };
    begin_with(0);
    for (int64_t bin = 0; bin < bins(); ++bin) {
      if (bin > corners.first) corners.begins.push_back(static_cast<int64_t>(corners.places.size()));
      const auto i = static_cast<double>(bin / region_.width), j = static_cast<double>(bin % region_.width);
      for (double m = 0; m < rows; ++m)
        for (double n = 0; n < columns; ++n) {
          if (corners.places.size() + 4 > most_corners()) {
            apply(corners);
            begin_with(bin);
          }
          const double dy = (i + (m + 0.5) / rows) * bin_y - height / 2;
          const double dx = (j + (n + 0.5) / columns) * bin_x - width / 2;
          sample(corners, dy * cosine - dx * sine + y0, dy * sine + dx * cosine + x0, rows * columns);
        }
    }
    apply(corners);
  }

  const int64_t samples_;

 private:
  template <class T>
  void sample(Corners<T>& corners, double y, double x, double count) const {
    BilinearPoint row, column;
    if (!bilinear_point(y, height_, &row) || !bilinear_point(x, width_, &column)) return;
    for (int k = 0; k < 4; ++k) {
      const double by_row = k / 2 == 0 ? 1 - row.share : row.share;
      const double weight = by_row * (k % 2 == 0 ? 1 - column.share : column.share) / count;
      if (weight == 0) continue;
      corners.places.push_back(static_cast<int32_t>((k / 2 == 0 ? row.low : row.high) * width_ +
                                                    (k % 2 == 0 ? column.low : column.high)));
      corners.weights.push_back(static_cast<T>(weight));
    }
  }
};

class RotatedAlign final : public RotatedPlan {
 public:
  RotatedAlign(std::vector<Spec> inputs, std::vector<Spec> outputs, const RegionOptions& region, int64_t samples)
      : RotatedPlan(inputs, outputs, inputs[0], outputs[0], region, samples),
        corners_(add_thread_scratch(corners_bytes())) {}

 protected:
  void execute(const Call& call) const override { type_ == F64 ? compute<double>(call) : compute<float>(call); }

 private:
  template <class T>
  void compute(const Call& call) const {
    Result<T> output(*this, call, 0);
    if (output.data() == nullptr) return;
    const T *data = read<T>(call, 0), *given = read<T>(call, 1);
    parallel_for(regions_, 1, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t r = begin; r < end; ++r) {
        T* to = output.data() + r * channels_ * bins();
        std::fill_n(to, channels_ * bins(), T(0));
        const int64_t image = image_or_padding(static_cast<double>(given[6 * r]));
        if (image < 0) continue;
        each_corners(corners_.arena(call, thread), given + 6 * r, [&](const Corners<T>& corners) {
          for (int64_t c = 0; c < channels_; ++c) {
            const T* map = data + (image * channels_ + c) * area();
            T* sums = to + c * bins();
            corners.each([&](int64_t bin, int32_t place, T weight) { sums[bin] += weight * map[place]; });
          }
        });
      }
    });
    output.deliver();
  }

  const PerThread corners_;
};

class RotatedAlignBackward final : public RotatedPlan {
 public:
  RotatedAlignBackward(std::vector<Spec> inputs, std::vector<Spec> outputs, const RegionOptions& region,
                       int64_t samples)
      : RotatedPlan(inputs, outputs, outputs[0], inputs[0], region, samples), corners_(add_scratch(corners_bytes())) {}

 protected:
  void execute(const Call& call) const override { type_ == F64 ? compute<double>(call) : compute<float>(call); }

 private:
  // Region by region, threads share channels: the order of additions is fixed.
  template <class T>
  void compute(const Call& call) const {
    Result<T> grad(*this, call, 0);
    if (grad.data() == nullptr) return;
    const T *head = read<T>(call, 0), *given = read<T>(call, 2);
    std::fill_n(grad.data(), outputs_[0].size(), T(0));
    for (int64_t r = 0; r < regions_; ++r) {
      const int64_t image = image_or_padding(static_cast<double>(given[6 * r]));
      if (image < 0) continue;
      const Arena arena(call.scratch(corners_), corners_bytes());
      each_corners(arena, given + 6 * r, [&](const Corners<T>& corners) {
        const auto work = static_cast<int64_t>(corners.places.size()) + 1;
        parallel_for(channels_, std::max<int64_t>((int64_t{1} << 16) / work, 1), [&](int64_t begin, int64_t end) {
          for (int64_t c = begin; c < end; ++c) {
            T* map = grad.data() + (image * channels_ + c) * area();
            const T* share = head + (r * channels_ + c) * bins();
            corners.each([&](int64_t bin, int32_t place, T weight) { map[place] += weight * share[bin]; });
          }
        });
      });
    }
    grad.deliver();
  }

  const Section corners_;
};

void check_rotated(const Spec& data, const Spec& regions, const Spec& result, const RegionOptions& o) {
  fits(data.shape.size() == 4 && result.shape.size() == 4 && o.height > 0 && o.width > 0 && data.shape[2] > 0 &&
           data.shape[3] > 0 && data.shape[2] * data.shape[3] <= INT32_MAX && regions.size() == result.shape[0] * 6 &&
           result.shape[1] == data.shape[1] && result.shape[2] == o.height && result.shape[3] == o.width,
       kName);
}

}  // namespace

PlanPtr make_rotated_align_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const RegionOptions& region,
                                int64_t samples) {
  fits(inputs.size() == 2 && outputs.size() == 1, kName);
  check_rotated(inputs[0], inputs[1], outputs[0], region);
  return std::make_unique<RotatedAlign>(std::move(inputs), std::move(outputs), region, samples);
}

PlanPtr make_rotated_align_backward_plan(std::vector<Spec> inputs, std::vector<Spec> outputs,
                                         const RegionOptions& region, int64_t samples) {
  fits(inputs.size() == 3 && outputs.size() == 1, kName);
  check_rotated(outputs[0], inputs[2], inputs[0], region);
  return std::make_unique<RotatedAlignBackward>(std::move(inputs), std::move(outputs), region, samples);
}

}  // namespace mx::cpu
