// SPDX-License-Identifier: Apache-2.0
#include "convolution/col2im.hpp"

#include <algorithm>

#include "common/clones.hpp"
#include "common/parallel.hpp"
#include "common/upcast.hpp"

namespace mx::cpu {
namespace {

template <class T>
MX_INLINE void add_row(T* __restrict to, const T* __restrict from, int64_t n, int64_t stride) {
  if (stride == 1) {
    for (int64_t i = 0; i < n; ++i) to[i] += from[i];
  } else {
    for (int64_t i = 0; i < n; ++i) to[i * stride] += from[i];
  }
}

// Windows first .. first + count - 1 meet the image with their element `tap`, the first one at `start`.
struct Reach {
  int64_t first, count, start;
};

Reach reach(const ColumnAxis& axis, int64_t tap) {
  const int64_t shift = tap * axis.dilate - axis.pad;  // where window 0 has it
  const int64_t first = shift < 0 ? (-shift + axis.stride - 1) / axis.stride : 0;
  const int64_t last = axis.image - 1 - shift < 0 ? -1 : (axis.image - 1 - shift) / axis.stride;
  return {first, std::max<int64_t>(std::min(last, axis.windows() - 1) - first + 1, 0), shift + first * axis.stride};
}

class ColumnsToImage final : public TypedPlan<ColumnsToImage> {
 public:
  ColumnsToImage(std::vector<Spec> inputs, std::vector<Spec> outputs, std::vector<ColumnAxis> axes)
      : TypedPlan(inputs, outputs, outputs[0].dtype, inputs[0].size()),
        axes_(std::move(axes)),
        planes_(outputs[0].shape[0] * outputs[0].shape[1]) {}

  template <class T>
  void compute(const Call& call) const {
    Result<T> image(*this, call, 0);
    if (image.data() == nullptr || outputs_[0].size() == 0) return;
    const T* columns = read<T>(call, 0);
    const int64_t area = outputs_[0].size() / planes_, own = inputs_[0].size() / planes_;
    parallel_for(planes_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        T* to = image.data() + plane * area;
        std::fill_n(to, area, T(0));
        if (own > 0) add_plane(to, columns + plane * own);
      }
    });
    image.deliver();
  }

 private:
  template <class T>
  void add_plane(T* image, const T* columns) const {
    const ColumnAxis &depth = axes_[0], &height = axes_[1], &width = axes_[2];
    const int64_t windows = depth.windows() * height.windows() * width.windows();
    for (int64_t d = 0; d < depth.kernel; ++d)
      for (int64_t h = 0; h < height.kernel; ++h)
        for (int64_t w = 0; w < width.kernel; ++w, columns += windows) {
          const Reach z = reach(depth, d), y = reach(height, h), x = reach(width, w);
          if (x.count == 0) continue;
          for (int64_t i = 0; i < z.count; ++i)
            for (int64_t j = 0; j < y.count; ++j)
              best_clone<add_row<T>>(
                  image + ((z.start + i * depth.stride) * height.image + y.start + j * height.stride) * width.image +
                      x.start,
                  columns + ((z.first + i) * height.windows() + y.first + j) * width.windows() + x.first, x.count,
                  width.stride);
        }
  }

  const std::vector<ColumnAxis> axes_;  // three
  const int64_t planes_;
};

}  // namespace

PlanPtr make_columns_to_image_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, std::vector<ColumnAxis> axes) {
  bool agree = !inputs.empty() && outputs.size() == 1 && !axes.empty() && axes.size() <= 3 &&
               outputs[0].shape.size() == axes.size() + 2;
  int64_t columns = agree ? outputs[0].shape[0] * outputs[0].shape[1] : 0;
  for (size_t i = 0; agree && i < axes.size(); ++i) {
    const ColumnAxis& axis = axes[i];
    agree = axis.image == outputs[0].shape[i + 2] && axis.image >= 0 && axis.kernel > 0 && axis.stride > 0 &&
            axis.dilate > 0 && axis.pad >= 0 && axis.image + 2 * axis.pad >= axis.dilate * (axis.kernel - 1) + 1;
    columns *= agree ? axis.kernel * axis.windows() : 0;
  }
  fits(agree && inputs[0].size() == columns, "col2im");
  while (axes.size() < 3) axes.insert(axes.begin(), ColumnAxis{1, 1, 1, 1, 0});
  return std::make_unique<ColumnsToImage>(std::move(inputs), std::move(outputs), std::move(axes));
}

}  // namespace mx::cpu
