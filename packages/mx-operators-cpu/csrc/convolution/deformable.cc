// SPDX-License-Identifier: Apache-2.0
//
// Points of a window's element are looked up once for all channels that share them.
#include "convolution/deformable.hpp"

#include <algorithm>
#include <cmath>

#include "common/clones.hpp"
#include "vision/bilinear_corners.hpp"
#include "common/parallel.hpp"
#include "common/upcast.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kChannels = 16;  // channels a thread takes at a time

struct Sizes {
  int64_t batch, channels, height, width, rows, columns, taps;
  int64_t area() const { return height * width; }
  int64_t windows() const { return rows * columns; }
  int64_t blocks() const { return (windows() + kPoints - 1) / kPoints; }
};

Sizes sizes_of(const Spec& data, const Spec& offset, const Spec* mask, int64_t columns, const DeformableOptions& o) {
  const bool ranks = data.shape.size() == 4 && offset.shape.size() == 4 && o.groups > 0 && o.kernel[0] > 0 && o.kernel[1] > 0;
  fits(ranks && data.shape[2] > 0 && data.shape[3] > 0 && data.shape[2] * data.shape[3] <= INT32_MAX, "DeformableConvolution");
  const Sizes s{data.shape[0], data.shape[1], data.shape[2], data.shape[3],
                offset.shape[2], offset.shape[3], o.kernel[0] * o.kernel[1]};
  fits(s.channels % o.groups == 0 && offset.shape[0] == s.batch && offset.shape[1] == 2 * o.groups * s.taps &&
           (mask == nullptr || mask->size() * 2 == offset.size()) &&
           columns == s.batch * s.channels * s.taps * s.windows(),
       "DeformableConvolution");
  return s;
}

// Some windows' element: what is asked of the image, at which offsets.
struct Place {
  int64_t image, group, tap, first, n;
};

class Deformable {
 public:
  Deformable(const Sizes& sizes, const DeformableOptions& options) : s_(sizes), o_(options) {}

  int64_t group_channels() const { return s_.channels / o_.groups; }
  // Where the element's values of a channel are, in offsets (the second axis one further) and columns.
  int64_t offset_at(const Place& p) const {
    return ((p.image * o_.groups + p.group) * s_.taps + p.tap) * 2 * s_.windows() + p.first;
  }
  int64_t mask_at(const Place& p) const {
    return ((p.image * o_.groups + p.group) * s_.taps + p.tap) * s_.windows() + p.first;
  }
  int64_t column_at(const Place& p, int64_t channel) const {
    return (channel * s_.taps + p.tap) * s_.batch * s_.windows() + p.image * s_.windows() + p.first;
  }

  // Positions are computed in double: whole numbers do not take digits from offsets.
  template <class T>
  void find(Corners<T>& made, const Place& p, const T* offsets) const {
    const T *down = offsets + offset_at(p), *right = down + s_.windows();
    const int64_t tap_y = p.tap / o_.kernel[1] * o_.dilate[0] - o_.pad[0];
    const int64_t tap_x = p.tap % o_.kernel[1] * o_.dilate[1] - o_.pad[1];
    const auto height = static_cast<double>(s_.height), width = static_cast<double>(s_.width);
    const double margin = o_.masked ? -1.0 : 0.0;
    int64_t row = p.first / s_.columns, column = p.first % s_.columns;
    for (int64_t i = 0; i < p.n; ++i) {
      const double y = static_cast<double>(row * o_.stride[0] + tap_y) + static_cast<double>(down[i]);
      const double x = static_cast<double>(column * o_.stride[1] + tap_x) + static_cast<double>(right[i]);
      const bool inside = (o_.masked ? y > margin && x > margin : y >= margin && x >= margin) && y < height && x < width;
      place(made, i, inside ? y : 0.0, inside ? x : 0.0, inside);
      if (++column == s_.columns) {
        column = 0;
        ++row;
      }
    }
  }

  const Sizes s_;
  const DeformableOptions o_;

 private:
  template <class T>
  void place(Corners<T>& made, int64_t i, double y, double x, bool inside) const {
    const double top = std::floor(y), left = std::floor(x), share_y = y - top, share_x = x - left;
    for (int k = 0; k < 4; ++k) {
      int64_t row = static_cast<int64_t>(top) + k / 2, column = static_cast<int64_t>(left) + k % 2;
      bool there = inside;
      if (o_.masked) {
        there = inside && row >= 0 && row < s_.height && column >= 0 && column < s_.width;
      }
      // Without a mask the last row and column go on.
      row = std::clamp<int64_t>(row, 0, s_.height - 1);
      column = std::clamp<int64_t>(column, 0, s_.width - 1);
      const double along_y = k / 2 == 0 ? 1 - share_y : share_y, along_x = k % 2 == 0 ? 1 - share_x : share_x;
      made.place[k][i] = static_cast<int32_t>(row * s_.width + column);
      made.weight[k][i] = there ? static_cast<T>(along_y * along_x) : T(0);
      made.by_y[k][i] = there ? static_cast<T>(k / 2 == 0 ? -along_x : along_x) : T(0);
      made.by_x[k][i] = there ? static_cast<T>(k % 2 == 0 ? -along_y : along_y) : T(0);
    }
  }
};

template <class T>
void multiply(T* to, const T* from, const T* factors, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = from[i] * factors[i];
}

class DeformableColumns final : public TypedPlan<DeformableColumns> {
 public:
  DeformableColumns(std::vector<Spec> inputs, std::vector<Spec> outputs, const Sizes& sizes, const DeformableOptions& o)
      : TypedPlan(inputs, outputs, outputs[0].dtype, 4 * outputs[0].size()), d_(sizes, o) {}

  template <class T>
  void compute(const Call& call) const {
    Result<T> columns(*this, call, 0);
    if (columns.data() == nullptr || outputs_[0].size() == 0) return;
    const T *data = read<T>(call, 0), *offsets = read<T>(call, 1);
    const T* mask = d_.o_.masked ? read<T>(call, 2) : nullptr;
    const Sizes& s = d_.s_;
    const int64_t tasks = s.batch * d_.o_.groups * s.taps * s.blocks();
    parallel_for(tasks, 1, [&](int64_t begin, int64_t end) {
      Corners<T> corners;
      for (int64_t task = begin; task < end; ++task) {
        const int64_t first = task % s.blocks() * kPoints, tap = task / s.blocks() % s.taps;
        const int64_t group = task / s.blocks() / s.taps;
        const Place p{group / d_.o_.groups, group % d_.o_.groups, tap, first, std::min(kPoints, s.windows() - first)};
        d_.find(corners, p, offsets);
        if (mask != nullptr)
          for (auto& weight : corners.weight) multiply(weight, weight, mask + d_.mask_at(p), p.n);
        for (int64_t c = p.group * d_.group_channels(); c < (p.group + 1) * d_.group_channels(); ++c)
          gather_points(columns.data() + d_.column_at(p, c), data + (p.image * s.channels + c) * s.area(), corners, p.n);
      }
    });
    columns.deliver();
  }

 private:
  const Deformable d_;
};

class DeformableBackward final : public TypedPlan<DeformableBackward> {
 public:
  DeformableBackward(std::vector<Spec> inputs, std::vector<Spec> outputs, const Sizes& sizes, const DeformableOptions& o)
      : TypedPlan(inputs, outputs, outputs[0].dtype, 8 * inputs[0].size()), d_(sizes, o) {}

  template <class T>
  void compute(const Call& call) const {
    Result<T> data_grad(*this, call, 0), offset_grad(*this, call, 1);
    const T *columns = read<T>(call, 0), *data = read<T>(call, 1), *offsets = read<T>(call, 2);
    const T* mask = d_.o_.masked ? read<T>(call, 3) : nullptr;
    if (data_grad.data() != nullptr) by_data(columns, offsets, mask, data_grad.data());
    if (!d_.o_.masked) {
      if (offset_grad.data() != nullptr) by_place<T>(columns, data, offsets, nullptr, offset_grad.data(), nullptr);
    } else {
      Result<T> mask_grad(*this, call, 2);
      if (offset_grad.data() != nullptr || mask_grad.data() != nullptr)
        by_place(columns, data, offsets, mask, offset_grad.data(), mask_grad.data());
      mask_grad.deliver();
    }
    data_grad.deliver();
    offset_grad.deliver();
  }

 private:
  // Threads share channels: the order of additions is fixed.
  template <class T>
  void by_data(const T* columns, const T* offsets, const T* mask, T* grad) const {
    const Sizes& s = d_.s_;
    const int64_t own = d_.group_channels(), parts = (own + kChannels - 1) / kChannels;
    std::fill_n(grad, outputs_[0].size(), T(0));
    parallel_for(s.batch * d_.o_.groups * parts, 1, [&](int64_t begin, int64_t end) {
      Corners<T> corners;
      for (int64_t task = begin; task < end; ++task) {
        const int64_t group = task / parts % d_.o_.groups, image = task / parts / d_.o_.groups;
        const int64_t from = group * own + task % parts * kChannels, to = std::min(from + kChannels, (group + 1) * own);
        for (int64_t tap = 0; tap < s.taps; ++tap)
          for (int64_t first = 0; first < s.windows(); first += kPoints) {
            const Place p{image, group, tap, first, std::min(kPoints, s.windows() - first)};
            d_.find(corners, p, offsets);
            if (mask != nullptr)
              for (auto& weight : corners.weight) multiply(weight, weight, mask + d_.mask_at(p), p.n);
            for (int64_t c = from; c < to; ++c)
              scatter_points(grad + (image * s.channels + c) * s.area(), columns + d_.column_at(p, c), corners, p.n);
          }
      }
    });
  }

  // Gradients of offsets and mask: sums over the channels that share them.
  template <class T>
  void by_place(const T* columns, const T* data, const T* offsets, const T* mask, T* offset_grad,
                T* mask_grad) const {
    const Sizes& s = d_.s_;
    parallel_for(s.batch * d_.o_.groups * s.taps * s.blocks(), 1, [&](int64_t begin, int64_t end) {
      Corners<T> corners;
      T sums[4][kPoints];
      for (int64_t task = begin; task < end; ++task) {
        const int64_t first = task % s.blocks() * kPoints, group = task / s.blocks() / s.taps;
        const Place p{group / d_.o_.groups, group % d_.o_.groups, task / s.blocks() % s.taps, first,
                      std::min(kPoints, s.windows() - first)};
        d_.find(corners, p, offsets);
        for (auto& row : sums) std::fill_n(row, p.n, T(0));
        for (int64_t c = p.group * d_.group_channels(); c < (p.group + 1) * d_.group_channels(); ++c)
          correlate_points(sums, data + (p.image * s.channels + c) * s.area(), columns + d_.column_at(p, c), corners, p.n);
        if (mask_grad != nullptr) weigh(mask_grad + d_.mask_at(p), sums, corners.weight, static_cast<const T*>(nullptr), p.n);
        if (offset_grad == nullptr) continue;
        const T* factors = mask != nullptr ? mask + d_.mask_at(p) : nullptr;
        weigh(offset_grad + d_.offset_at(p), sums, corners.by_y, factors, p.n);
        weigh(offset_grad + d_.offset_at(p) + s.windows(), sums, corners.by_x, factors, p.n);
      }
    });
  }

  template <class T>
  static void weigh(T* to, const T (&sums)[4][kPoints], const T (&weights)[4][kPoints], const T* factors, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      T total = T(0);
      for (int k = 0; k < 4; ++k) total += sums[k][i] * weights[k][i];
      to[i] = factors != nullptr ? total * factors[i] : total;
    }
  }

  const Deformable d_;
};

}  // namespace

PlanPtr make_deformable_columns_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const DeformableOptions& o) {
  fits(inputs.size() == (o.masked ? 3u : 2u) && outputs.size() == 1, "DeformableConvolution");
  const Sizes s = sizes_of(inputs[0], inputs[1], o.masked ? &inputs[2] : nullptr, outputs[0].size(), o);
  return std::make_unique<DeformableColumns>(std::move(inputs), std::move(outputs), s, o);
}

PlanPtr make_deformable_backward_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const DeformableOptions& o) {
  const size_t kinds = o.masked ? 3 : 2;
  fits(inputs.size() == kinds + 1 && outputs.size() == kinds, "DeformableConvolution");
  const Sizes s = sizes_of(inputs[1], inputs[2], o.masked ? &inputs[3] : nullptr, inputs[0].size(), o);
  for (size_t i = 0; i < kinds; ++i) fits(inputs[i + 1].size() == outputs[i].size(), "DeformableConvolution");
  return std::make_unique<DeformableBackward>(std::move(inputs), std::move(outputs), s, o);
}

}  // namespace mx::cpu
