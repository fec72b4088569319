// SPDX-License-Identifier: Apache-2.0
#include "vision/bilinear_sampler.hpp"

#include <algorithm>
#include <cmath>

#include "common/clones.hpp"
#include "vision/bilinear_corners.hpp"
#include "common/parallel.hpp"
#include "common/upcast.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kChannels = 16;  // channels a thread takes at a time

// The largest number of type T up to the last index; from 2^24 on a float may round beyond it.
template <class T>
T last_of(int64_t extent) {
  const T rounded = static_cast<T>(extent - 1);
  return static_cast<int64_t>(rounded) < extent ? rounded : std::nextafter(rounded, T(0));
}

template <class T>
MX_INLINE void find(Corners<T>& made, const T* x, const T* y, int64_t n, int64_t height, int64_t width,
                    bool derivatives) {
  const T right = last_of<T>(width), bottom = last_of<T>(height);
  for (int64_t i = 0; i < n; ++i) {
    const T px = (x[i] + 1) * right / 2, py = (y[i] + 1) * bottom / 2;
    const T left = std::floor(px), top = std::floor(py);
    const T share_x = px - left, share_y = py - top;
    for (int k = 0; k < 4; ++k) {
      const T column = left + static_cast<T>(k % 2), row = top + static_cast<T>(k / 2);
      const bool inside = (column >= 0) & (column <= right) & (row >= 0) & (row <= bottom);
      const T along_x = k % 2 == 0 ? 1 - share_x : share_x, along_y = k / 2 == 0 ? 1 - share_y : share_y;
      const T safe_row = inside ? row : T(0), safe_column = inside ? column : T(0);
      made.place[k][i] = static_cast<int32_t>(safe_row) * static_cast<int32_t>(width) + static_cast<int32_t>(safe_column);
      made.weight[k][i] = inside ? along_y * along_x : T(0);
      if (!derivatives) continue;
      made.by_x[k][i] = inside ? (k % 2 == 0 ? -along_y : along_y) : T(0);
      made.by_y[k][i] = inside ? (k / 2 == 0 ? -along_x : along_x) : T(0);
    }
  }
}

MX_CLONES(void, find_float, (Corners<float>& made, const float* x, const float* y, int64_t n, int64_t height,
                             int64_t width, bool derivatives), (made, x, y, n, height, width, derivatives)) {
  derivatives ? find(made, x, y, n, height, width, true) : find(made, x, y, n, height, width, false);
}
void find_points(Corners<float>& made, const float* x, const float* y, int64_t n, int64_t height, int64_t width,
                 bool derivatives) {
  find_float(made, x, y, n, height, width, derivatives);
}
void find_points(Corners<double>& made, const double* x, const double* y, int64_t n, int64_t height, int64_t width,
                 bool derivatives) {
  find(made, x, y, n, height, width, derivatives);
}

// The shape of a sampler's tensors.
struct Sizes {
  int64_t batch, channels, height, width, points;
  int64_t area() const { return height * width; }
  int64_t blocks() const { return (points + kPoints - 1) / kPoints; }
  int64_t groups() const { return (channels + kChannels - 1) / kChannels; }
};

Sizes sizes_of(const Spec& data, const Spec& grid, const Spec& result) {
  fits(data.shape.size() == 4 && grid.shape.size() == 4 && data.shape[0] == grid.shape[0] &&
                    grid.shape[1] == 2 && data.shape[2] > 0 && data.shape[3] > 0 &&
                    data.shape[2] * data.shape[3] <= INT32_MAX &&
                    result.size() == data.shape[0] * data.shape[1] * grid.shape[2] * grid.shape[3],
       "BilinearSampler");
  return {data.shape[0], data.shape[1], data.shape[2], data.shape[3], grid.shape[2] * grid.shape[3]};
}

class SamplerPlan final : public TypedPlan<SamplerPlan> {
 public:
  SamplerPlan(std::vector<Spec> inputs, std::vector<Spec> outputs)
      : TypedPlan(inputs, outputs, outputs[0].dtype, 4 * outputs[0].size()),
        s_(sizes_of(inputs[0], inputs[1], outputs[0])) {}

  template <class T>
  void compute(const Call& call) const {
    Result<T> output(*this, call, 0);
    if (output.data() == nullptr || outputs_[0].size() == 0) return;
    const T *data = read<T>(call, 0), *grid = read<T>(call, 1);
    parallel_for(s_.batch * s_.blocks(), 1, [&](int64_t begin, int64_t end) {
      Corners<T> corners;
      for (int64_t task = begin; task < end; ++task) {
        const int64_t image = task / s_.blocks(), first = task % s_.blocks() * kPoints;
        const int64_t n = std::min(kPoints, s_.points - first);
        const T* x = grid + image * 2 * s_.points + first;
        find_points(corners, x, x + s_.points, n, s_.height, s_.width, false);
        for (int64_t c = image * s_.channels; c < (image + 1) * s_.channels; ++c)
          gather_points(output.data() + c * s_.points + first, data + c * s_.area(), corners, n);
      }
    });
    output.deliver();
  }

 private:
  const Sizes s_;
};

class SamplerBackwardPlan final : public TypedPlan<SamplerBackwardPlan> {
 public:
  SamplerBackwardPlan(std::vector<Spec> inputs, std::vector<Spec> outputs)
      : TypedPlan(inputs, outputs, outputs[0].dtype, 8 * inputs[0].size()),
        s_(sizes_of(inputs[1], inputs[2], inputs[0])) {}

  template <class T>
  void compute(const Call& call) const {
    Result<T> data_grad(*this, call, 0), grid_grad(*this, call, 1);
    const T *head = read<T>(call, 0), *data = read<T>(call, 1), *grid = read<T>(call, 2);
    if (data_grad.data() != nullptr) by_data(head, grid, data_grad.data());
    if (grid_grad.data() != nullptr) by_grid(head, data, grid, grid_grad.data());
    data_grad.deliver();
    grid_grad.deliver();
  }

 private:
  // Threads share channels: the order of additions is fixed.
  template <class T>
  void by_data(const T* head, const T* grid, T* grad) const {
    std::fill_n(grad, outputs_[0].size(), T(0));
    parallel_for(s_.batch * s_.groups(), 1, [&](int64_t begin, int64_t end) {
      Corners<T> corners;
      for (int64_t task = begin; task < end; ++task) {
        const int64_t image = task / s_.groups(), from = task % s_.groups() * kChannels;
        const int64_t to = std::min(from + kChannels, s_.channels);
        for (int64_t first = 0; first < s_.points; first += kPoints) {
          const int64_t n = std::min(kPoints, s_.points - first);
          const T* x = grid + image * 2 * s_.points + first;
          find_points(corners, x, x + s_.points, n, s_.height, s_.width, false);
          for (int64_t c = image * s_.channels + from; c < image * s_.channels + to; ++c)
            scatter_points(grad + c * s_.area(), head + c * s_.points + first, corners, n);
        }
      }
    });
  }

  template <class T>
  void by_grid(const T* head, const T* data, const T* grid, T* grad) const {
    const T half_x = static_cast<T>(s_.width - 1) / 2, half_y = static_cast<T>(s_.height - 1) / 2;
    parallel_for(s_.batch * s_.blocks(), 1, [&](int64_t begin, int64_t end) {
      Corners<T> corners;
      T value[4][kPoints];
      for (int64_t task = begin; task < end; ++task) {
        const int64_t image = task / s_.blocks(), first = task % s_.blocks() * kPoints;
        const int64_t n = std::min(kPoints, s_.points - first), at = image * 2 * s_.points + first;
        find_points(corners, grid + at, grid + at + s_.points, n, s_.height, s_.width, true);
        for (auto& row : value) std::fill_n(row, n, T(0));
        for (int64_t c = image * s_.channels; c < (image + 1) * s_.channels; ++c)
          correlate_points(value, data + c * s_.area(), head + c * s_.points + first, corners, n);
        for (int64_t i = 0; i < n; ++i) {
          T x = T(0), y = T(0);
          for (int k = 0; k < 4; ++k) {
            x += value[k][i] * corners.by_x[k][i];
            y += value[k][i] * corners.by_y[k][i];
          }
          grad[at + i] = x * half_x;
          grad[at + s_.points + i] = y * half_y;
        }
      }
    });
  }

  const Sizes s_;
};

// Point i of n from -1 to 1.
double spread(int64_t i, int64_t n) {
  return n > 1 ? i == n - 1 ? 1.0 : static_cast<double>(i) * (2.0 / static_cast<double>(n - 1)) - 1.0 : -1.0;
}

class AffineGridPlan final : public TypedPlan<AffineGridPlan> {
 public:
  AffineGridPlan(std::vector<Spec> inputs, std::vector<Spec> outputs)
      : TypedPlan(inputs, outputs, outputs[0].dtype, outputs[0].size()) {}

  template <class T>
  void compute(const Call& call) const {
    Result<T> output(*this, call, 0);
    if (output.data() == nullptr || outputs_[0].size() == 0) return;
    const T* matrices = read<T>(call, 0);
    const int64_t height = outputs_[0].shape[2], width = outputs_[0].shape[3];
    parallel_for(outputs_[0].size() / width, 16, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* m = matrices + row / height * 3;
        const double across = static_cast<double>(m[0]);
        const double rest = static_cast<double>(m[1]) * spread(row % height, height) + static_cast<double>(m[2]);
        T* to = output.data() + row * width;
        for (int64_t x = 0; x < width; ++x) to[x] = static_cast<T>(across * spread(x, width) + rest);
      }
    });
    output.deliver();
  }
};

class AffineGridBackwardPlan final : public TypedPlan<AffineGridBackwardPlan> {
 public:
  AffineGridBackwardPlan(std::vector<Spec> inputs, std::vector<Spec> outputs)
      : TypedPlan(inputs, outputs, outputs[0].dtype, inputs[0].size()) {}

  template <class T>
  void compute(const Call& call) const {
    Result<T> grad(*this, call, 0);
    if (grad.data() == nullptr || outputs_[0].size() == 0) return;
    const T* head = read<T>(call, 0);
    const int64_t height = inputs_[0].shape[2], width = inputs_[0].shape[3];
    parallel_for(inputs_[0].shape[0] * 2, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        double sums[3] = {};
        const T* from = head + i * height * width;
        for (int64_t y = 0; y < height; ++y, from += width) {
          double plain = 0, weighted = 0;
          for (int64_t x = 0; x < width; ++x) {
            plain += static_cast<double>(from[x]);
            weighted += static_cast<double>(from[x]) * spread(x, width);
          }
          sums[0] += weighted;
          sums[1] += plain * spread(y, height);
          sums[2] += plain;
        }
        for (int k = 0; k < 3; ++k) grad.data()[3 * i + k] = static_cast<T>(sums[k]);
      }
    });
    grad.deliver();
  }
};

class WarpGridPlan final : public TypedPlan<WarpGridPlan> {
 public:
  WarpGridPlan(std::vector<Spec> inputs, std::vector<Spec> outputs, bool backward)
      : TypedPlan(inputs, outputs, outputs[0].dtype, outputs[0].size()), backward_(backward) {}

  template <class T>
  void compute(const Call& call) const {
    Result<T> output(*this, call, 0);
    if (output.data() == nullptr || outputs_[0].size() == 0) return;
    const T* data = read<T>(call, 0);
    const int64_t height = outputs_[0].shape[2], width = outputs_[0].shape[3];
    parallel_for(outputs_[0].size() / width, 64, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const bool vertical = row / height % 2 != 0;
        const double half = static_cast<double>((vertical ? height : width) - 1) / 2;
        const T* from = data + row * width;
        T* to = output.data() + row * width;
        for (int64_t x = 0; x < width; ++x) {
          const auto shift = static_cast<double>(vertical ? row % height : x);
          const auto value = static_cast<double>(from[x]);
          to[x] = static_cast<T>(backward_ ? value / half : (value + shift) / half - 1);
        }
      }
    });
    output.deliver();
  }

 private:
  const bool backward_;
};

bool is_grid(const Spec& spec) { return spec.shape.size() == 4 && spec.shape[1] == 2; }

}  // namespace

PlanPtr make_sampler_plan(std::vector<Spec> inputs, std::vector<Spec> outputs) {
  if (inputs.size() != 2 || outputs.size() != 1) throw Error(MX_ERROR_VALUE, "[BilinearSampler] expected two inputs");
  return std::make_unique<SamplerPlan>(std::move(inputs), std::move(outputs));
}

PlanPtr make_sampler_backward_plan(std::vector<Spec> inputs, std::vector<Spec> outputs) {
  if (inputs.size() != 3 || outputs.size() != 2 || outputs[0].size() != inputs[1].size() ||
      outputs[1].size() != inputs[2].size())
    throw Error(MX_ERROR_VALUE, "[_backward_BilinearSampler] expected three inputs and two gradients");
  return std::make_unique<SamplerBackwardPlan>(std::move(inputs), std::move(outputs));
}

PlanPtr make_affine_grid_plan(std::vector<Spec> inputs, std::vector<Spec> outputs) {
  fits(inputs.size() == 1 && outputs.size() == 1 && is_grid(outputs[0]) &&
       inputs[0].size() == outputs[0].shape[0] * 6,
       "GridGenerator");
  return std::make_unique<AffineGridPlan>(std::move(inputs), std::move(outputs));
}

PlanPtr make_affine_grid_backward_plan(std::vector<Spec> inputs, std::vector<Spec> outputs) {
  fits(inputs.size() == 1 && outputs.size() == 1 && is_grid(inputs[0]) &&
       outputs[0].size() == inputs[0].shape[0] * 6,
       "_backward_GridGenerator");
  return std::make_unique<AffineGridBackwardPlan>(std::move(inputs), std::move(outputs));
}

PlanPtr make_warp_grid_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, bool backward) {
  fits(inputs.size() == 1 && outputs.size() == 1 && is_grid(outputs[0]) && inputs[0].size() == outputs[0].size(),
       "GridGenerator");
  return std::make_unique<WarpGridPlan>(std::move(inputs), std::move(outputs), backward);
}

}  // namespace mx::cpu
