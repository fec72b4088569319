// SPDX-License-Identifier: Apache-2.0
//
// Local response normalisation across channels (Krizhevsky et al., NIPS 2012, section 3.3).  oneDNN
// has it, but not its bracket, which the gradient needs: y = x / norm^beta with
// norm = knorm + alpha / size * (sum of the squared neighbours).
#include <cmath>

#include "common/shape.hpp"
#include "common/clones.hpp"
#include "norm/norm.hpp"
#include "norm/channel_loops.hpp"

namespace mx::cpu {
namespace {

// sums += a * b
MX_CLONES(void, add_products, (const float* a, const float* b, float* sums, int64_t n), (a, b, sums, n)) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sums[i] += a[i] * b[i];
}

class LrnBase : public Plan {
 protected:
  LrnBase(const Signature& s, const LrnOptions& o)
      : Plan(s, bandwidth_cost(s)), o_(o), images_(extent(s.inputs[0].shape, 0)),
        channels_(extent(s.inputs[0].shape, 1)),
        inner_(product(s.inputs[0].shape, 2, s.inputs[0].shape.size())), blocks_((inner_ + kBlockChannels - 1) / kBlockChannels) {
    require_float(s);
    for (const auto* specs : {&s.inputs, &s.outputs}) {
      for (const Spec& spec : *specs) {
        if (spec.shape != s.inputs[0].shape) throw Unsupported{};
      }
    }
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

  // norm^-beta; the usual 3/4 without logarithms.
  float decay(float norm) const {
    if (o_.beta == 0.75) return 1 / (std::sqrt(norm) * std::sqrt(std::sqrt(norm)));
    return std::pow(norm, static_cast<float>(-o_.beta));
  }

  static void store(float* target, float value, bool add) { *target = add ? *target + value : value; }

  const LrnOptions o_;
  const int64_t images_, channels_, inner_, blocks_;
};

class Lrn final : public LrnBase {
 public:
  Lrn(const Signature& s, const LrnOptions& o) : LrnBase(s, o) {}

 private:
  void execute(const Call& call) const override {
    const auto knorm = static_cast<float>(o_.knorm), weight = static_cast<float>(o_.alpha / static_cast<double>(o_.size));
    for_blocks([&](int64_t at, int64_t n, int) {
      const float* x = call.input<float>(0) + at;
      for (int64_t c = 0; c < channels_; ++c) {
        float sums[kBlockChannels] = {};
        const auto [first, last] = neighbours(c);
        for (int64_t k = first; k < last; ++k) add_products(x + k * inner_, x + k * inner_, sums, n);
        for (int64_t i = 0; i < n; ++i) {
          const int64_t e = c * inner_ + i;
          const float norm = knorm + weight * sums[i];
          if (call.wanted(0)) store(call.output<float>(0) + at + e, x[e] * decay(norm), call.adds(0));
          if (call.wanted(1)) store(call.output<float>(1) + at + e, norm, call.adds(1));
        }
      }
    });
  }
};

class LrnBackward final : public LrnBase {
 public:
  LrnBackward(const Signature& s, const LrnOptions& o) : LrnBase(s, o) {
    // Per thread and channel of a block: out_grad * norm^(-beta - 1).
    add_scratch(static_cast<size_t>(threads()) * block_floats() * sizeof(float));
  }

 private:
  size_t block_floats() const { return static_cast<size_t>(channels_ * kBlockChannels); }

  void execute(const Call& call) const override {
    if (!call.wanted(0)) return;
    const auto weight = static_cast<float>(2 * o_.alpha * o_.beta / static_cast<double>(o_.size));
    for_blocks([&](int64_t at, int64_t n, int thread) {
      const float *g = call.input<float>(0) + at, *x = call.input<float>(1) + at, *norm = call.input<float>(2) + at;
      float* through = static_cast<float*>(call.context.scratch[0]) + static_cast<size_t>(thread) * block_floats();
      for (int64_t c = 0; c < channels_; ++c) {
        for (int64_t i = 0; i < n; ++i) {
          const int64_t e = c * inner_ + i;
          through[c * kBlockChannels + i] = g[e] * decay(norm[e]) / norm[e];
        }
      }
      for (int64_t c = 0; c < channels_; ++c) {
        float sums[kBlockChannels] = {};
        const auto [first, last] = neighbours(c);
        for (int64_t k = first; k < last; ++k) add_products(through + k * kBlockChannels, x + k * inner_, sums, n);
        for (int64_t i = 0; i < n; ++i) {
          const int64_t e = c * inner_ + i;
          const float direct = through[c * kBlockChannels + i] * norm[e];
          store(call.output<float>(0) + at + e, direct - weight * x[e] * sums[i], call.adds(0));
        }
      }
    });
  }
};

}  // namespace

PlanPtr lrn(const Signature& signature, const LrnOptions& options) {
  require_counts(signature, 1, 1, 2, 2);
  return std::make_unique<Lrn>(signature, options);
}

PlanPtr lrn_backward(const Signature& signature, const LrnOptions& options) {
  require_counts(signature, 3, 3, 1, 1);
  return std::make_unique<LrnBackward>(signature, options);
}

}  // namespace mx::cpu
