// SPDX-License-Identifier: Apache-2.0
//
// Local response normalisation across channels (Krizhevsky et al., NIPS 2012, section 3.3).  oneDNN
// has it, but not its bracket, which the gradient needs: y = x / norm^beta with
// norm = knorm + alpha / size * (sum of the squared neighbours).
#include <cmath>

#include "common/clones.hpp"
#include "common/float_types.hpp"
#include "common/shape.hpp"
#include "norm/channel_loops.hpp"
#include "norm/norm.hpp"

namespace mx::cpu {
namespace {

// sums += a * b
template <class T>
MX_INLINE void add_products(const T* a, const T* b, T* sums, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sums[i] += a[i] * b[i];
}

// y = x / norm^beta; the usual 3/4 without logarithms.
template <class T>
MX_INLINE void decay(const T* x, const T* norm, T beta, T* y, int64_t n) {
  if (beta == T(0.75)) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] / (std::sqrt(norm[i]) * std::sqrt(std::sqrt(norm[i])));
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * std::pow(norm[i], -beta);
  }
}

// norm = knorm + weight * norm, and y of it.
template <class T>
MX_INLINE void normalize(const T* x, T knorm, T weight, T beta, T* norm, T* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) norm[i] = knorm + weight * norm[i];
  decay(x, norm, beta, y, n);
}

// through = g / norm^(beta + 1)
template <class T>
MX_INLINE void pass_back(const T* g, const T* norm, T beta, T* through, int64_t n) {
  decay(g, norm, beta, through, n);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) through[i] /= norm[i];
}

// sums = through * norm - weight * x * sums
template <class T>
MX_INLINE void join(const T* through, const T* norm, const T* x, T weight, T* sums, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sums[i] = through[i] * norm[i] - weight * x[i] * sums[i];
}

template <class T>
void put(const T* values, T* to, int64_t n, bool add) {
  for (int64_t i = 0; i < n; ++i) to[i] = add ? to[i] + values[i] : values[i];
}

class LrnBase : public Plan {
 protected:
  LrnBase(const Signature& s, const LrnOptions& o)
      : Plan(s, bandwidth_cost(s)), o_(o), images_(extent(s.inputs[0].shape, 0)),
        channels_(extent(s.inputs[0].shape, 1)), inner_(product(s.inputs[0].shape, 2, s.inputs[0].shape.size())),
        blocks_((inner_ + kBlockChannels - 1) / kBlockChannels) {
    for (const auto* specs : {&s.inputs, &s.outputs})
      for (const Spec& spec : *specs)
        if (spec.shape != s.inputs[0].shape) throw Unsupported{};
  }

  // body(offset of the block's first element, positions, thread) per image and block of positions.
  template <class Body>
  void for_blocks(const Body& body) const {
    parallel_shares(images_ * blocks_, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t b = begin; b < end; ++b) {
        const int64_t first = b % blocks_ * kBlockChannels;
        body(b / blocks_ * channels_ * inner_ + first, std::min(kBlockChannels, inner_ - first), thread);
      }
    });
  }

  // Channels [first, last) that count for channel c.
  std::pair<int64_t, int64_t> neighbours(int64_t c) const {
    const int64_t half = (o_.size - 1) / 2;
    return {std::max<int64_t>(c - half, 0), std::min(c + half + 1, channels_)};
  }

  const LrnOptions o_;
  const int64_t images_, channels_, inner_, blocks_;
};

template <class T>
class Lrn final : public LrnBase {
 public:
  Lrn(const Signature& s, const LrnOptions& o) : LrnBase(s, o) {}

 private:
  void execute(const Call& call) const override {
    const auto knorm = static_cast<T>(o_.knorm), beta = static_cast<T>(o_.beta);
    const auto weight = static_cast<T>(o_.alpha / static_cast<double>(o_.size));
    for_blocks([&](int64_t at, int64_t n, int) {
      const T* x = call.input<T>(0) + at;
      for (int64_t c = 0; c < channels_; ++c) {
        T norm[kBlockChannels] = {}, y[kBlockChannels];
        const auto [first, last] = neighbours(c);
        for (int64_t k = first; k < last; ++k) best_clone<add_products<T>>(x + k * inner_, x + k * inner_, norm, n);
        best_clone<normalize<T>>(x + c * inner_, knorm, weight, beta, norm, y, n);
        if (call.wanted(0)) put(y, call.output<T>(0) + at + c * inner_, n, call.adds(0));
        if (call.wanted(1)) put(norm, call.output<T>(1) + at + c * inner_, n, call.adds(1));
      }
    });
  }
};

template <class T>
class LrnBackward final : public LrnBase {
 public:
  LrnBackward(const Signature& s, const LrnOptions& o) : LrnBase(s, o) {
    // Per thread and channel of a block: out_grad * norm^(-beta - 1).
    add_scratch(static_cast<size_t>(threads()) * block_size() * sizeof(T));
  }

 private:
  size_t block_size() const { return static_cast<size_t>(channels_ * kBlockChannels); }

  void execute(const Call& call) const override {
    if (!call.wanted(0)) return;
    const auto beta = static_cast<T>(o_.beta);
    const auto weight = static_cast<T>(2 * o_.alpha * o_.beta / static_cast<double>(o_.size));
    for_blocks([&](int64_t at, int64_t n, int thread) {
      const T *g = call.input<T>(0) + at, *x = call.input<T>(1) + at, *norm = call.input<T>(2) + at;
      T* through = static_cast<T*>(call.context.scratch[0]) + static_cast<size_t>(thread) * block_size();
      for (int64_t c = 0; c < channels_; ++c)
        best_clone<pass_back<T>>(g + c * inner_, norm + c * inner_, beta, through + c * kBlockChannels, n);
      for (int64_t c = 0; c < channels_; ++c) {
        T sums[kBlockChannels] = {};
        const auto [first, last] = neighbours(c);
        for (int64_t k = first; k < last; ++k)
          best_clone<add_products<T>>(through + k * kBlockChannels, x + k * inner_, sums, n);
        best_clone<join<T>>(through + c * kBlockChannels, norm + c * inner_, x + c * inner_, weight, sums, n);
        put(sums, call.output<T>(0) + at + c * inner_, n, call.adds(0));
      }
    });
  }
};

}  // namespace

PlanPtr lrn(const Signature& signature, const LrnOptions& options) {
  require_counts(signature, 1, 1, 2, 2);
  if (all_double(signature)) return std::make_unique<Lrn<double>>(signature, options);
  require_float(signature);
  return std::make_unique<Lrn<float>>(signature, options);
}

PlanPtr lrn_backward(const Signature& signature, const LrnOptions& options) {
  require_counts(signature, 3, 3, 1, 1);
  if (all_double(signature)) return std::make_unique<LrnBackward<double>>(signature, options);
  require_float(signature);
  return std::make_unique<LrnBackward<float>>(signature, options);
}

}  // namespace mx::cpu
