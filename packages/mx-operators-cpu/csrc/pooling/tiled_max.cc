// SPDX-License-Identifier: Apache-2.0
//
// Maxima over square windows that tile an image, in float32, channels before the image: a row of results at a time,
// and gradients without a second search.
#include <algorithm>
#include <limits>

#include "common/clones.hpp"
#include "pooling/pooling_loops.hpp"

namespace mx::cpu {
namespace {

// y[i] = the largest of size x size elements, which begin at x[i * size] in each of `size` rows.
template <int size>
MX_INLINE void fold_row(const float* __restrict x, int64_t width, float* __restrict y, int64_t n, bool add) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    float best = std::numeric_limits<float>::lowest();  // passes over NaN
    for (int r = 0; r < size; ++r)
      for (int c = 0; c < size; ++c) {
        const float e = x[r * width + i * size + c];
        best = e > best ? e : best;
      }
    y[i] = add ? y[i] + best : best;
  }
}

// The first element that is as large as the result takes the gradient, the others none. A result that no element has,
// of NaN or negative infinities alone, gives it to the first.
template <int size>
MX_INLINE void spread_row(const float* __restrict g, const float* __restrict x, const float* __restrict y, int64_t width,
                          float* __restrict grad, int64_t n, bool add) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    float left = g[i];  // 0 as soon as one has taken it
    for (int r = 0; r < size; ++r)
      for (int c = 0; c < size; ++c) {
        const int64_t at = r * width + i * size + c;
        const float share = x[at] == y[i] ? left : 0.0f;
        left = x[at] == y[i] ? 0.0f : left;
        grad[at] = add ? grad[at] + share : share;
      }
    grad[i * size] += left;
  }
}

MX_CLONES(void, fold_pairs, (const float* x, int64_t width, float* y, int64_t n, bool add), (x, width, y, n, add)) {
  add ? fold_row<2>(x, width, y, n, true) : fold_row<2>(x, width, y, n, false);
}
MX_CLONES(void, fold_triples, (const float* x, int64_t width, float* y, int64_t n, bool add), (x, width, y, n, add)) {
  add ? fold_row<3>(x, width, y, n, true) : fold_row<3>(x, width, y, n, false);
}
MX_CLONES(void, spread_pairs,
          (const float* g, const float* x, const float* y, int64_t width, float* grad, int64_t n, bool add),
          (g, x, y, width, grad, n, add)) {
  add ? spread_row<2>(g, x, y, width, grad, n, true) : spread_row<2>(g, x, y, width, grad, n, false);
}
MX_CLONES(void, spread_triples,
          (const float* g, const float* x, const float* y, int64_t width, float* grad, int64_t n, bool add),
          (g, x, y, width, grad, n, add)) {
  add ? spread_row<3>(g, x, y, width, grad, n, true) : spread_row<3>(g, x, y, width, grad, n, false);
}

// An image and its results.
struct Tiling {
  Tiling(const Spec& data, const Spec& out, const PoolOptions& o)
      : size(o.window.kernel[0]), planes(data.shape[0] * data.shape[1]), height(data.shape[2]), width(data.shape[3]),
        rows(out.shape[2]), columns(out.shape[3]) {}

  int64_t image() const { return height * width; }
  int64_t results() const { return rows * columns; }

  int64_t size, planes, height, width, rows, columns;
};

class TiledMax final : public Plan {
 public:
  TiledMax(const Signature& s, const PoolOptions& o, const Cost& cost)
      : Plan(counted(s, 1, 1), cost), t_(s.inputs[0], s.outputs[0], o) {}

 private:
  void execute(const Call& call) const override {
    if (!call.wanted(0)) return;
    const auto fold = t_.size == 2 ? fold_pairs : fold_triples;
    parallel_shares(t_.planes * t_.rows, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const float* image = call.input<float>(0) + i / t_.rows * t_.image();
        fold(image + i % t_.rows * t_.size * t_.width, t_.width, call.output<float>(0) + i * t_.columns, t_.columns,
             call.adds(0));
      }
    });
  }

  const Tiling t_;
};

class TiledMaxBackward final : public Plan {
 public:
  TiledMaxBackward(const Signature& s, const PoolOptions& o, const Cost& cost)
      : Plan(counted(s, 3, 1), cost), t_(s.inputs[1], s.inputs[0], o) {
    require_sizes(s.inputs, {s.inputs[0].size(), s.inputs[1].size(), s.inputs[0].size()});
    require_sizes(s.outputs, {s.inputs[1].size()});
  }

 private:
  void execute(const Call& call) const override {
    if (!call.wanted(0)) return;
    parallel_shares(t_.planes, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        image(call.input<float>(0) + p * t_.results(), call.input<float>(1) + p * t_.image(),
              call.input<float>(2) + p * t_.results(), call.output<float>(0) + p * t_.image(), call.adds(0));
      }
    });
  }

  void image(const float* g, const float* x, const float* y, float* grad, bool add) const {
    const auto spread = t_.size == 2 ? spread_pairs : spread_triples;
    const int64_t covered = t_.columns * t_.size;
    for (int64_t r = 0; r < t_.rows; ++r) {
      const int64_t place = r * t_.size * t_.width;
      spread(g + r * t_.columns, x + place, y + r * t_.columns, t_.width, grad + place, t_.columns, add);
      if (add) continue;
      for (float* row = grad + place; row < grad + place + t_.size * t_.width; row += t_.width)
        std::fill(row + covered, row + t_.width, 0.0f);
    }
    if (!add) std::fill(grad + t_.rows * t_.size * t_.width, grad + t_.image(), 0.0f);
  }

  const Tiling t_;
};

}  // namespace

bool is_tiled_max(const Spec& data, const Spec& out, const PoolOptions& o) {
  const Window& w = o.window;
  if (o.type != PoolType::max || o.channels_last || w.kernel.size() != 2 || data.dtype != MX_FLOAT32 ||
      out.dtype != MX_FLOAT32 || data.shape.size() != 4 || out.shape.size() != 4 || out.size() == 0)
    return false;
  const int64_t size = w.kernel[0];
  if ((size != 2 && size != 3) || w.kernel[1] != size || data.shape[0] != out.shape[0] || data.shape[1] != out.shape[1])
    return false;
  for (size_t i = 0; i < 2; ++i)
    if (w.stride[i] != size || w.pad[i] != 0 || out.shape[i + 2] > data.shape[i + 2] / size) return false;
  return true;
}

PlanPtr tiled_max(const Signature& signature, const PoolOptions& options, const Cost& cost) {
  return std::make_unique<TiledMax>(signature, options, cost);
}

PlanPtr tiled_max_backward(const Signature& signature, const PoolOptions& options, const Cost& cost) {
  return std::make_unique<TiledMaxBackward>(signature, options, cost);
}

}  // namespace mx::cpu
