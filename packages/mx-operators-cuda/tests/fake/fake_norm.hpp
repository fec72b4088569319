// SPDX-License-Identifier: Apache-2.0
//
// A normalization in training by its definition, on tensors with strides, or its gradient.
#pragma once

#include "fake_convolution.hpp"

#include <cmath>
#include <string>
#include <vector>

namespace fake {

struct Norm {
  int mode = -1;  // 0: each example; 2: each channel; -1: none
  bool gradient = false;
  Tensor x, y, scale, bias, mean, inverse, dscale, dx;  // `y`: or its gradient; `bias`: or its gradient
  int64_t epsilon_id = 0;

  std::vector<const Tensor*> tensors() const {
    if (gradient) return {&x, &y, &scale, &mean, &inverse, &dscale, &bias, &dx};
    return {&x, &y, &scale, &bias, &mean, &inverse};
  }
  std::vector<int64_t> over() const {
    return mode == 2 ? std::vector<int64_t>{1, x.extents[1], 1, 1} : std::vector<int64_t>{x.extents[0], 1, 1, 1};
  }
  bool fits() const {
    if (x.extents.size() != 4 || y.extents != x.extents || (gradient && dx.extents != x.extents)) return false;
    const std::vector<int64_t> along{1, x.extents[1], 1, 1};
    if (scale.extents != along || bias.extents != along || (gradient && dscale.extents != along)) return false;
    return mean.extents == over() && inverse.extents == over() && mean.type == kReal32 && inverse.type == kReal32;
  }

  // `data`: where the tensor with an id lies.
  template <class Data> void compute(const Data& data, double epsilon) const {
    const size_t axis = mode == 2 ? 1 : 0;
    const auto groups = static_cast<size_t>(x.extents[axis]), channels = static_cast<size_t>(x.extents[1]);
    double count = 1;
    for (const int64_t n : x.extents) count *= static_cast<double>(n);
    count /= static_cast<double>(groups);
    const auto at = [](const Tensor& t, const std::vector<int64_t>& index) {
      int64_t made = 0;
      for (size_t i = 0; i < index.size(); ++i) made += index[i] * t.strides[i];
      return made;
    };
    const auto value = [&](const Tensor& t, const std::vector<int64_t>& index) { return t.get(data(t.id), at(t, index)); };
    const auto weight = [&](size_t c) { return scale.get(data(scale.id), static_cast<int64_t>(c) * scale.strides[1]); };
    const auto statistic = [&](const Tensor& t, size_t g) { return static_cast<int64_t>(g) * t.strides[axis]; };
    std::vector<double> first(groups), second(groups);
    if (!gradient) {
      each(x.extents, [&](const auto& index) { first[index[axis]] += value(x, index) / count; });
      each(x.extents, [&](const auto& index) {
        const double away = value(x, index) - first[index[axis]];
        second[index[axis]] += away * away / count;
      });
      for (size_t g = 0; g < groups; ++g) {
        second[g] = 1 / std::sqrt(second[g] + epsilon);
        mean.put(data(mean.id), statistic(mean, g), first[g]);
        inverse.put(data(inverse.id), statistic(inverse, g), second[g]);
      }
      each(x.extents, [&](const auto& index) {
        const double normal = (value(x, index) - first[index[axis]]) * second[index[axis]];
        const double shift = bias.get(data(bias.id), index[1] * bias.strides[1]);
        y.put(data(y.id), at(y, index), normal * weight(index[1]) + shift);
      });
      return;
    }
    const auto normal = [&](const std::vector<int64_t>& index) {
      const size_t g = index[axis];
      return (value(x, index) - mean.get(data(mean.id), statistic(mean, g))) *
             inverse.get(data(inverse.id), statistic(inverse, g));
    };
    std::vector<double> along(channels), sums(channels);
    each(x.extents, [&](const auto& index) {
      const double g = value(y, index), scaled = g * weight(index[1]);
      along[index[1]] += g * normal(index);
      sums[index[1]] += g;
      first[index[axis]] += scaled / count;
      second[index[axis]] += scaled * normal(index) / count;
    });
    for (size_t c = 0; c < channels; ++c) {
      dscale.put(data(dscale.id), static_cast<int64_t>(c) * dscale.strides[1], along[c]);
      bias.put(data(bias.id), static_cast<int64_t>(c) * bias.strides[1], sums[c]);
    }
    each(x.extents, [&](const auto& index) {
      const size_t g = index[axis];
      const double made = value(y, index) * weight(index[1]) - first[g] - normal(index) * second[g];
      dx.put(data(dx.id), at(dx, index), made * inverse.get(data(inverse.id), statistic(inverse, g)));
    });
  }

  std::string text() const {
    const char* type = x.type == kReal32 ? "float32" : x.type == kReal16 ? "float16" : "bfloat16";
    return std::string(gradient ? "gradient of " : "") + (mode == 2 ? "batch norm " : "layer norm ") + type +
           " x=" + x.text() + " scale=" + scale.text() + " mean=" + mean.text();
  }
};

}  // namespace fake
