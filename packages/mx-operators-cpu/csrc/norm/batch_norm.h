// SPDX-License-Identifier: Apache-2.0
//
// BatchNorm (S. Ioffe, C. Szegedy, arXiv:1502.03167): what is done once per channel, however a tensor lies in
// memory.
#pragma once

#include <cmath>
#include <type_traits>

#include "norm/norm.h"

namespace mx::cpu {

// An output with an element per channel.
struct ChannelOutput {
  float* data;
  bool add;

  ChannelOutput(const Call& call, size_t i)
      : data(call.wanted(i) ? call.output<float>(i) : nullptr), add(call.adds(i)) {}
  void set(int64_t c, float value) const {
    if (data != nullptr) data[c] = add ? data[c] + value : value;
  }
};

// The statistics of channel c are known: records what is to be recorded, and returns gamma / std.
inline float finish_channel(const BatchNormOptions& o, const Call& call, int64_t c, float mean, float variance) {
  ChannelOutput(call, 1).set(c, mean);
  ChannelOutput(call, 2).set(c, variance);
  if (o.use_batch_stats) {
    const auto keep = static_cast<float>(o.momentum), take = static_cast<float>(1 - o.momentum);
    float *moving_mean = call.state<float>(3) + c, *moving_var = call.state<float>(4) + c;
    *moving_mean = *moving_mean * keep + mean * take;
    *moving_var = *moving_var * keep + variance * take;
  }
  const float gamma = o.fix_gamma ? 1.f : call.input<float>(1)[c];
  return gamma / std::sqrt(variance + static_cast<float>(o.eps));
}

// The data gradient is a * g + b * (x - mean) + c.
struct Coefficients {
  float a, b, c;
};

// From the sums of g and of g * (x - mean) over channel c's `count` elements: writes the parameters' gradients.
inline Coefficients finish_channel_gradient(const BatchNormOptions& o, const Call& call, int64_t c, double count,
                                            double total, double moment) {
  const double inverse = 1 / std::sqrt(static_cast<double>(call.input<float>(4)[c]) + o.eps);
  const double gamma = o.fix_gamma ? 1.0 : call.input<float>(2)[c];
  ChannelOutput(call, 1).set(c, o.fix_gamma ? 0.f : static_cast<float>(moment * inverse));
  ChannelOutput(call, 2).set(c, static_cast<float>(total));
  const double a = gamma * inverse;
  if (!o.use_batch_stats) return {static_cast<float>(a), 0, 0};
  return {static_cast<float>(a), static_cast<float>(-a * inverse * inverse * moment / count),
          static_cast<float>(-a * total / count)};
}

template <class T>
constexpr int32_t type_of = std::is_same_v<T, float> ? MX_FLOAT32 : MX_BFLOAT16;

// Throws Unsupported unless the first `data` tensors hold T and all others floats.
template <class T>
void require_types(const std::vector<Spec>& specs, size_t data) {
  for (size_t i = 0; i < specs.size(); ++i)
    if (specs[i].dtype != (i < data ? type_of<T> : int32_t{MX_FLOAT32})) throw Unsupported{};
}

// A plan for data of a type, float32 or BFloat16.
template <template <class> class Kind>
PlanPtr made_for(int32_t dtype, const Signature& s, const BatchNormOptions& o) {
  if (dtype == MX_BFLOAT16) return std::make_unique<Kind<BFloat16>>(s, o);
  return std::make_unique<Kind<float>>(s, o);
}

// With channels last.
PlanPtr batch_norm_rows(const Signature& signature, const BatchNormOptions& options);
PlanPtr batch_norm_rows_backward(const Signature& signature, const BatchNormOptions& options);

}  // namespace mx::cpu
