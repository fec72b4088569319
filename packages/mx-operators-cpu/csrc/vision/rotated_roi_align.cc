// SPDX-License-Identifier: Apache-2.0
//
// Regions that are turned: the samples of a bin lie on no common rows, so each has corners of its own.
#include <algorithm>
#include <cmath>

#include "common/thread_pool.h"
#include "vision/regions.h"
#include "common/upcast.h"

namespace mx::vector {
namespace {

const char* const kName = "_contrib_RROIAlign";
constexpr double kRadian = 3.14159265358979323846 / 180;
constexpr double kMostSamples = 1e6;  // of a region; a mean over more of them has no digits left

// What the bins of a region read of the map, with which weights.
template <class T>
struct Taps {
  int64_t image = -1;           // below 0: nothing
  std::vector<size_t> begins;   // bins + 1
  std::vector<int32_t> places;  // of the map
  std::vector<T> weights;
};

class TurnedPlan : public WidePlan {
 public:
  TurnedPlan(std::vector<Spec> inputs, std::vector<Spec> outputs, const Spec& data, const Spec& result,
             const RegionOptions& region, int64_t samples)
      : WidePlan(inputs, outputs, data.dtype, 16 * result.elements),
        o_(region),
        samples_(samples),
        images_(data.shape[0]),
        channels_(data.shape[1]),
        height_(data.shape[2]),
        width_(data.shape[3]),
        regions_(result.shape[0]) {}

 protected:
  int64_t bins() const { return o_.height * o_.width; }
  int64_t area() const { return height_ * width_; }

  template <class T>
  Taps<T> taps(const T* at) const {
    if (!(at[0] > -1)) {
      if (at[0] <= -1) return {};
      throw Error(MX_ERROR_INDEX, std::string("[") + kName + "] rois: an image that is no number");
    }
    if (!(at[0] < static_cast<T>(images_)))
      throw Error(MX_ERROR_INDEX, std::string("[") + kName + "] rois: expected images below " +
                                      std::to_string(images_) + ", got " + std::to_string(at[0]));
    double x0 = at[1] * o_.scale, y0 = at[2] * o_.scale, width = at[3] * o_.scale, height = at[4] * o_.scale;
    width = std::max(width, 1.0);
    height = std::max(height, 1.0);
    const double angle = static_cast<double>(at[5]) * kRadian, cosine = std::cos(angle), sine = std::sin(angle);
    const double bin_y = height / static_cast<double>(o_.height), bin_x = width / static_cast<double>(o_.width);
    const double rows = samples_ > 0 ? static_cast<double>(samples_) : std::ceil(bin_y);
    const double columns = samples_ > 0 ? static_cast<double>(samples_) : std::ceil(bin_x);
    if (!(rows * columns * static_cast<double>(bins()) <= kMostSamples))
      throw Error(MX_ERROR_VALUE, std::string("[") + kName + "] rois: " + std::to_string(rows) + " x " +
                                      std::to_string(columns) + " samples per bin");
    Taps<T> made;
    made.image = static_cast<int64_t>(at[0]);
    made.begins.push_back(0);
    for (int64_t i = 0; i < o_.height; ++i)
      for (int64_t j = 0; j < o_.width; ++j) {
        for (double m = 0; m < rows; ++m)
          for (double n = 0; n < columns; ++n) {
            const double dy = (static_cast<double>(i) + (m + 0.5) / rows) * bin_y - height / 2;
            const double dx = (static_cast<double>(j) + (n + 0.5) / columns) * bin_x - width / 2;
            sample(made, dy * cosine - dx * sine + y0, dy * sine + dx * cosine + x0, rows * columns);
          }
        made.begins.push_back(made.places.size());
      }
    return made;
  }

  const RegionOptions o_;
  const int64_t samples_, images_, channels_, height_, width_, regions_;

 private:
  template <class T>
  void sample(Taps<T>& made, double y, double x, double count) const {
    if (!(y >= -1 && y <= static_cast<double>(height_) && x >= -1 && x <= static_cast<double>(width_))) return;
    const auto low = [](double& at, int64_t extent) {
      at = std::clamp(at, 0.0, static_cast<double>(extent - 1));
      return static_cast<int64_t>(at);
    };
    const int64_t row = low(y, height_), column = low(x, width_);
    const double share_y = y - static_cast<double>(row), share_x = x - static_cast<double>(column);
    for (int k = 0; k < 4; ++k) {
      const double weight = (k / 2 == 0 ? 1 - share_y : share_y) * (k % 2 == 0 ? 1 - share_x : share_x) / count;
      if (weight == 0) continue;
      made.places.push_back(static_cast<int32_t>(std::min(row + k / 2, height_ - 1) * width_ +
                                                 std::min(column + k % 2, width_ - 1)));
      made.weights.push_back(static_cast<T>(weight));
    }
  }
};

class TurnedAlign final : public TurnedPlan {
 public:
  TurnedAlign(std::vector<Spec> inputs, std::vector<Spec> outputs, const RegionOptions& region, int64_t samples)
      : TurnedPlan(inputs, outputs, inputs[0], outputs[0], region, samples) {}

 protected:
  void execute(const Call& call) const override { type_ == F64 ? compute<double>(call) : compute<float>(call); }

 private:
  template <class T>
  void compute(const Call& call) const {
    Result<T> output(*this, call, 0);
    if (output.data() == nullptr) return;
    const T *data = read<T>(call, 0), *given = read<T>(call, 1);
    parallel(threads(call), regions_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const Taps<T> region = taps(given + 6 * r);
        T* to = output.data() + r * channels_ * bins();
        if (region.image < 0) {
          std::fill_n(to, channels_ * bins(), T(0));
          continue;
        }
        for (int64_t c = 0; c < channels_; ++c) {
          const T* map = data + (region.image * channels_ + c) * area();
          for (size_t bin = 0; bin + 1 < region.begins.size(); ++bin) {
            T sum = T(0);
            for (size_t e = region.begins[bin]; e < region.begins[bin + 1]; ++e)
              sum += region.weights[e] * map[region.places[e]];
            *to++ = sum;
          }
        }
      }
    });
    output.deliver();
  }
};

class TurnedBackward final : public TurnedPlan {
 public:
  TurnedBackward(std::vector<Spec> inputs, std::vector<Spec> outputs, const RegionOptions& region, int64_t samples)
      : TurnedPlan(inputs, outputs, outputs[0], inputs[0], region, samples) {}

 protected:
  void execute(const Call& call) const override { type_ == F64 ? compute<double>(call) : compute<float>(call); }

 private:
  // Region by region, threads share channels: the order of additions is fixed.
  template <class T>
  void compute(const Call& call) const {
    Result<T> grad(*this, call, 0);
    if (grad.data() == nullptr) return;
    const T *head = read<T>(call, 0), *given = read<T>(call, 2);
    std::fill_n(grad.data(), outputs_[0].elements, T(0));
    for (int64_t r = 0; r < regions_; ++r) {
      const Taps<T> region = taps(given + 6 * r);
      if (region.image < 0) continue;
      const auto work = static_cast<int64_t>(region.places.size()) + 1;
      parallel(threads(call), channels_, std::max<int64_t>((int64_t{1} << 16) / work, 1), [&](int64_t begin, int64_t end) {
        for (int64_t c = begin; c < end; ++c) {
          T* map = grad.data() + (region.image * channels_ + c) * area();
          const T* share = head + (r * channels_ + c) * bins();
          for (size_t bin = 0; bin + 1 < region.begins.size(); ++bin)
            for (size_t e = region.begins[bin]; e < region.begins[bin + 1]; ++e)
              map[region.places[e]] += region.weights[e] * share[bin];
        }
      });
    }
    grad.deliver();
  }
};

void check_turned(const Spec& data, const Spec& regions, const Spec& result, const RegionOptions& o) {
  fits(data.shape.size() == 4 && result.shape.size() == 4 && o.height > 0 && o.width > 0 && data.shape[2] > 0 &&
           data.shape[3] > 0 && data.shape[2] * data.shape[3] <= INT32_MAX && regions.elements == result.shape[0] * 6 &&
           result.shape[1] == data.shape[1] && result.shape[2] == o.height && result.shape[3] == o.width,
       kName);
}

}  // namespace

PlanPtr make_turned_align_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const RegionOptions& region,
                               int64_t samples) {
  fits(inputs.size() == 2 && outputs.size() == 1, kName);
  check_turned(inputs[0], inputs[1], outputs[0], region);
  return std::make_unique<TurnedAlign>(std::move(inputs), std::move(outputs), region, samples);
}

PlanPtr make_turned_align_backward_plan(std::vector<Spec> inputs, std::vector<Spec> outputs,
                                        const RegionOptions& region, int64_t samples) {
  fits(inputs.size() == 3 && outputs.size() == 1, kName);
  check_turned(outputs[0], inputs[2], inputs[0], region);
  return std::make_unique<TurnedBackward>(std::move(inputs), std::move(outputs), region, samples);
}

}  // namespace mx::vector
