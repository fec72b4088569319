// SPDX-License-Identifier: Apache-2.0
//
// A convolution by its definition, on tensors with strides: y = w * x, or one of its two gradients.
#pragma once

#include "emulation.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace fake {

enum : int { kReal32 = 0, kReal16 = 2, kBrain16 = 9 };

struct Tensor {
  int64_t id = 0;
  int type = -1;
  std::vector<int64_t> extents, strides;
  bool is_virtual = false;
  int64_t alignment = 0;

  size_t width() const { return type == kReal32 ? 4 : 2; }
  size_t bytes() const {
    size_t last = 0;
    for (size_t i = 0; i < extents.size(); ++i) last += static_cast<size_t>((extents[i] - 1) * strides[i]);
    return (last + 1) * width();
  }
  double get(const char* data, int64_t at) const {
    if (type == kReal32) return reinterpret_cast<const float*>(data)[at];
    if (type == kReal16) return mx::widen(reinterpret_cast<const mx::half*>(data)[at]);
    return mx::widen(reinterpret_cast<const mx::bfloat16*>(data)[at]);
  }
  void put(char* data, int64_t at, double value) const {
    if (type == kReal32) reinterpret_cast<float*>(data)[at] = static_cast<float>(value);
    else if (type == kReal16) reinterpret_cast<mx::half*>(data)[at] = mx::to_half(static_cast<float>(value));
    else reinterpret_cast<mx::bfloat16*>(data)[at] = mx::to_bfloat16(static_cast<float>(value));
  }
  std::string text() const {
    const auto listed = [](const std::vector<int64_t>& values) {
      std::string made;
      for (const int64_t value : values) made += (made.empty() ? "" : ",") + std::to_string(value);
      return made;
    };
    return listed(extents) + "/" + listed(strides);
  }
};

// Calls `body` with every index below the extents.
template <class Body> void each(const std::vector<int64_t>& extents, const Body& body) {
  std::vector<int64_t> index(extents.size(), 0);
  for (;;) {
    body(index);
    size_t axis = extents.size();
    while (axis > 0 && ++index[axis - 1] == extents[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

struct Convolution {
  char result = 0;  // 'y', 'x' or 'w'; 0: none
  Tensor x, w, y, bias, residual;
  bool biased = false, added = false, relu = false;  // `added`: the residual is, after the bias
  double alpha = 1, beta = 0;
  std::vector<int64_t> pad, stride, dilate;

  Tensor& target() { return result == 'y' ? y : result == 'x' ? x : w; }
  const Tensor& target() const { return const_cast<Convolution*>(this)->target(); }
  std::vector<const Tensor*> tensors() const {
    std::vector<const Tensor*> all{&x, &w, &y};
    if (biased) all.push_back(&bias);
    if (added) all.push_back(&residual);
    return all;
  }

  bool fits() const {
    const size_t axes = pad.size();
    if (x.extents.size() != axes + 2 || w.extents.size() != axes + 2 || y.extents.size() != axes + 2) return false;
    if (x.extents[0] != y.extents[0] || w.extents[0] != y.extents[1] || x.extents[1] % w.extents[1] != 0) return false;
    if (w.extents[0] % (x.extents[1] / w.extents[1]) != 0) return false;
    for (size_t i = 0; i < axes; ++i) {
      const int64_t reach = dilate[i] * (w.extents[i + 2] - 1) + 1;
      if ((x.extents[i + 2] + 2 * pad[i] - reach) / stride[i] + 1 != y.extents[i + 2]) return false;
    }
    return true;
  }

  // `data`: where the tensor with an id lies.
  template <class Data> void compute(const Data& data) const {
    const Tensor& made = target();
    std::vector<double> sums(made.bytes() / made.width(), 0.0);
    const char *from_x = data(x.id), *from_w = data(w.id), *from_y = data(y.id);
    const size_t axes = pad.size();
    const int64_t inner = w.extents[1], per_group = w.extents[0] / (x.extents[1] / inner);
    std::vector<int64_t> space(w.extents.begin() + 2, w.extents.end());
    each(y.extents, [&](const std::vector<int64_t>& at_y) {
      const int64_t place_y = offset(y, at_y), first = at_y[1] / per_group * inner;
      each(space, [&](const std::vector<int64_t>& tap) {
        int64_t place_x = at_y[0] * x.strides[0], place_w = at_y[1] * w.strides[0];
        for (size_t i = 0; i < axes; ++i) {
          const int64_t at = at_y[i + 2] * stride[i] - pad[i] + tap[i] * dilate[i];
          if (at < 0 || at >= x.extents[i + 2]) return;
          place_x += at * x.strides[i + 2];
          place_w += tap[i] * w.strides[i + 2];
        }
        for (int64_t c = 0; c < inner; ++c) {
          const int64_t in_x = place_x + (first + c) * x.strides[1], in_w = place_w + c * w.strides[1];
          if (result == 'y') sums[place_y] += x.get(from_x, in_x) * w.get(from_w, in_w);
          if (result == 'x') sums[in_x] += y.get(from_y, place_y) * w.get(from_w, in_w);
          if (result == 'w') sums[in_w] += y.get(from_y, place_y) * x.get(from_x, in_x);
        }
      });
    });
    char* to = data(made.id);
    each(made.extents, [&](const std::vector<int64_t>& index) {
      const int64_t at = offset(made, index);
      double value = alpha * sums[at];
      if (biased) value += bias.get(data(bias.id), index[1] * bias.strides[1]);
      if (added) value += residual.get(data(residual.id), offset(residual, index));
      if (relu && value < 0) value = 0;
      if (beta != 0) value += beta * made.get(to, at);  // without it the target is not read: it may hold anything
      made.put(to, at, value);
    });
  }

  std::string text() const {
    const char* type = x.type == kReal32 ? "float32" : x.type == kReal16 ? "float16" : "bfloat16";
    return std::string(1, result) + " " + type + " x=" + x.text() + " w=" + w.text() + " y=" + y.text() +
           (biased ? " bias=" + bias.text() : "") + (added ? " residual=" + residual.text() : "") + (relu ? " relu" : "") + (beta != 0 ? " added" : "");
  }

 private:
  static int64_t offset(const Tensor& t, const std::vector<int64_t>& index) {
    int64_t at = 0;
    for (size_t i = 0; i < index.size(); ++i) at += index[i] * t.strides[i];
    return at;
  }
};

}  // namespace fake
