// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "common/parallel.hpp"
#include "vision/region_plan.hpp"

namespace mx::cpu {
namespace {

// A window along one axis, inside the map.
struct Window {
  int64_t begin, end;
};

Span<Window> windows(double first, double last, int64_t count, int64_t extent, Window* memory) {
  const double size = std::max(last - first + 1, 1.0) / static_cast<double>(count);
  const auto inside = [&](double x) {
    return static_cast<int64_t>(std::min(std::max(x, 0.0), static_cast<double>(extent)));
  };
  for (int64_t i = 0; i < count; ++i)
    memory[i] = {inside(std::floor(static_cast<double>(i) * size) + first),
                 inside(std::ceil(static_cast<double>(i + 1) * size) + first)};
  return {memory, static_cast<size_t>(count)};
}

// The image a region lies in; a negative index marks padding, which reads image 0.
int64_t image_of(const double* region, int64_t images, const char* op) {
  for (int k = 0; k < 5; ++k)
    if (!std::isfinite(region[k]))
      throw Error(MX_ERROR_INDEX, std::string("[") + op + "] rois: expected numbers, got " + std::to_string(region[k]));
  if (region[0] >= static_cast<double>(images))
    throw Error(MX_ERROR_INDEX, std::string("[") + op + "] rois: image " + std::to_string(region[0]) + " of " +
                                    std::to_string(images) + " images");
  return static_cast<int64_t>(std::max(region[0], 0.0));
}

class PoolingForward final : public TypedPlan<PoolingForward> {
 public:
  PoolingForward(std::vector<Spec> inputs, std::vector<Spec> outputs, const RegionOptions& options)
      : TypedPlan(inputs, outputs, inputs[0].dtype, 8 * outputs[0].size()),
        o_(options),
        windows_(add_thread_scratch(static_cast<size_t>(o_.height + o_.width) * sizeof(Window))) {}

  template <class T>
  void compute(const Call& call) const {
    Result<T> output(*this, call, 0);
    Result<int32_t> places(*this, call, 1);
    const T *data = read<T>(call, 0), *regions = read<T>(call, 1);
    const int64_t each = outputs_[0].size() / std::max<int64_t>(outputs_[0].shape[0], 1);
    parallel_for(outputs_[0].shape[0], 1, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t r = begin; r < end; ++r)
        one(windows_.of<Window>(call, thread), data, regions + 5 * r, output.data() == nullptr ? nullptr : output.data() + r * each,
            places.data() == nullptr ? nullptr : places.data() + r * each);
    });
    output.deliver();
    places.deliver();
  }

 private:
  template <class T>
  void one(Window* memory, const T* data, const T* given, T* to, int32_t* place) const {
    const int64_t channels = inputs_[0].shape[1], height = inputs_[0].shape[2], width = inputs_[0].shape[3];
    double region[5];
    std::copy_n(given, 5, region);
    const T* map = data + image_of(region, inputs_[0].shape[0], "ROIPooling") * channels * height * width;
    for (int k = 1; k < 5; ++k) region[k] = rounded(region[k] * o_.scale);
    const auto rows = windows(region[2], region[4], o_.height, height, memory);
    const auto columns = windows(region[1], region[3], o_.width, width, memory + o_.height);
    for (int64_t c = 0; c < channels; ++c, map += height * width)
      for (const auto& [top, bottom] : rows)
        for (const auto& [left, right] : columns) {
          const bool empty = top >= bottom || left >= right;
          const int64_t at = empty ? -1 : largest(map, width, top, bottom, left, right);
          if (to != nullptr) *to++ = empty ? T(0) : map[at];
          if (place != nullptr) *place++ = static_cast<int32_t>(at);
        }
  }

  // The first of the largest elements of a window, or the first that is no number.
  template <class T>
  static int64_t largest(const T* map, int64_t width, int64_t top, int64_t bottom, int64_t left, int64_t right) {
    int64_t at = top * width + left;
    T best = map[at];
    bool numbers = true;
    for (int64_t y = top; y < bottom; ++y)
      for (int64_t i = y * width + left; i < y * width + right; ++i) {
        const T value = map[i];
        const bool better = value > best;
        best = better ? value : best;
        at = better ? i : at;
        numbers &= value == value;
      }
    for (int64_t y = top; !numbers && y < bottom; ++y)
      for (int64_t i = y * width + left; i < y * width + right; ++i)
        if (map[i] != map[i]) return i;
    return at;
  }

  const RegionOptions o_;
  const PerThread windows_;
};

class PoolingBackward final : public TypedPlan<PoolingBackward> {
 public:
  PoolingBackward(std::vector<Spec> inputs, std::vector<Spec> outputs)
      : TypedPlan(inputs, outputs, outputs[0].dtype, inputs[0].size() + outputs[0].size()),
        images_(add_scratch<int64_t>(inputs_[0].shape[0])) {}

  // Threads share channels: the order of additions is fixed.
  template <class T>
  void compute(const Call& call) const {
    Result<T> grad(*this, call, 0);
    if (grad.data() == nullptr) return;
    const T *head = read<T>(call, 0), *given = read<T>(call, 2);
    const auto* places = reinterpret_cast<const int32_t*>(call.input(3));
    const int64_t channels = outputs_[0].shape[1], area = outputs_[0].shape[2] * outputs_[0].shape[3];
    const int64_t regions = inputs_[0].shape[0], bins = inputs_[0].shape[2] * inputs_[0].shape[3];
    auto* images = call.scratch<int64_t>(images_);
    for (int64_t r = 0; r < regions; ++r) {
      double region[5];
      std::copy_n(given + 5 * r, 5, region);
      images[r] = image_of(region, outputs_[0].shape[0], "_backward_ROIPooling");
    }
    for (int64_t i = 0; i < inputs_[3].size(); ++i)
      if (places[i] >= area)
        throw Error(MX_ERROR_INDEX, "[_backward_ROIPooling] maxidx: expected below " + std::to_string(area) +
                                        ", got " + std::to_string(places[i]));
    std::fill_n(grad.data(), outputs_[0].size(), T(0));
    parallel_for(channels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c)
        for (int64_t r = 0; r < regions; ++r) {
          T* map = grad.data() + (images[r] * channels + c) * area;
          const int64_t first = (r * channels + c) * bins;
          for (int64_t i = first; i < first + bins; ++i)
            if (places[i] >= 0) map[places[i]] += head[i];
        }
    });
    grad.deliver();
  }

 private:
  const Section images_;
};

void check_pooling(const Spec& data, const Spec& regions, const Spec& result, const Spec& places,
                   const RegionOptions& o) {
  fits(data.shape.size() == 4 && data.shape[0] > 0 && result.shape.size() == 4 && o.height > 0 &&
                    o.width > 0 && result.shape[1] == data.shape[1] && result.shape[2] == o.height &&
                    result.shape[3] == o.width && regions.size() == 5 * result.shape[0] &&
                    places.size() == result.size() && places.dtype == MX_INT32 &&
                    data.shape[2] * data.shape[3] <= INT32_MAX,
       "ROIPooling");
}

}  // namespace

PlanPtr make_roi_pooling_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const RegionOptions& o) {
  if (inputs.size() != 2 || outputs.size() != 2) throw Error(MX_ERROR_VALUE, "[ROIPooling] expected two inputs");
  check_pooling(inputs[0], inputs[1], outputs[0], outputs[1], o);
  return std::make_unique<PoolingForward>(std::move(inputs), std::move(outputs), o);
}

PlanPtr make_roi_pooling_backward_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const RegionOptions& o) {
  if (inputs.size() != 4 || outputs.size() != 1) throw Error(MX_ERROR_VALUE, "[ROIPooling] expected four inputs");
  check_pooling(outputs[0], inputs[2], inputs[0], inputs[3], o);
  return std::make_unique<PoolingBackward>(std::move(inputs), std::move(outputs));
}

}  // namespace mx::cpu
