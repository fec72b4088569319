// SPDX-License-Identifier: Apache-2.0
//
// Attention by its definition, on tensors (examples, heads, rows, depth) with strides.
#pragma once

#include "fake_convolution.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace fake {

struct Attention {
  bool there = false;
  Tensor q, k, v, o, statistics;
  bool trains = false;  // the statistics are written, too
  int64_t scale_id = 0;

  std::vector<const Tensor*> tensors() const {
    std::vector<const Tensor*> all{&q, &k, &v, &o};
    if (trains) all.push_back(&statistics);
    return all;
  }
  bool fits() const {
    const std::vector<int64_t> each_row{q.extents[0], q.extents[1], q.extents[2], 1};
    if (trains && (statistics.type != kReal32 || statistics.extents != each_row)) return false;
    for (const Tensor* t : {&q, &k, &v, &o}) {
      if (t->extents.size() != 4 || t->extents[0] != q.extents[0] || t->extents[1] != q.extents[1]) return false;
      if (t->type == kReal32 || t->type != q.type || t->strides[3] != 1) return false;
    }
    return k.extents[3] == q.extents[3] && v.extents[2] == k.extents[2] && o.extents[2] == q.extents[2] &&
           o.extents[3] == v.extents[3];
  }

  // `data`: where the tensor with an id lies.
  template <class Data> void compute(const Data& data, double scale) const {
    const auto value = [&](const Tensor& t, int64_t n, int64_t h, int64_t row, int64_t d) {
      return t.get(data(t.id), n * t.strides[0] + h * t.strides[1] + row * t.strides[2] + d);
    };
    const int64_t keys = k.extents[2];
    std::vector<double> powers(static_cast<size_t>(keys));
    each({q.extents[0], q.extents[1], q.extents[2]}, [&](const auto& at) {
      double most = -INFINITY, sum = 0;
      for (int64_t j = 0; j < keys; ++j) {
        double score = 0;
        for (int64_t d = 0; d < q.extents[3]; ++d) {
          score += value(q, at[0], at[1], at[2], d) * value(k, at[0], at[1], j, d);
        }
        powers[static_cast<size_t>(j)] = score * scale;
        most = std::max(most, score * scale);
      }
      for (double& power : powers) sum += power = std::exp(power - most);
      if (trains) {
        const auto& s = statistics.strides;
        statistics.put(data(statistics.id), at[0] * s[0] + at[1] * s[1] + at[2] * s[2], most + std::log(sum));
      }
      for (int64_t d = 0; d < o.extents[3]; ++d) {
        double made = 0;
        for (int64_t j = 0; j < keys; ++j) made += powers[static_cast<size_t>(j)] * value(v, at[0], at[1], j, d);
        o.put(data(o.id), at[0] * o.strides[0] + at[1] * o.strides[1] + at[2] * o.strides[2] + d, made / sum);
      }
    });
  }

  std::string text() const {
    return std::string("attention ") + (q.type == kReal16 ? "float16" : "bfloat16") + " q=" + q.text() +
           " k=" + k.text() + " v=" + v.text() + " o=" + o.text() + (trains ? " statistics=" + statistics.text() : "");
  }
};

}  // namespace fake
