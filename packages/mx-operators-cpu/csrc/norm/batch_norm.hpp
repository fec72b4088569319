// SPDX-License-Identifier: Apache-2.0
//
// BatchNorm (S. Ioffe, C. Szegedy, arXiv:1502.03167): what is done once per channel, however a tensor lies in
// memory.
#pragma once

#include <cmath>
#include <type_traits>

#include "norm/channel_loops.hpp"
#include "norm/norm.hpp"

namespace mx::cpu {

// An output with an element per channel.
template <class S>
struct ChannelOutput {
  S* data;
  bool add;

  ChannelOutput(const Call& call, size_t i) : data(call.wanted(i) ? call.output<S>(i) : nullptr), add(call.adds(i)) {}
  void set(int64_t c, S value) const {
    if (data != nullptr) data[c] = add ? data[c] + value : value;
  }
};

// The statistics of channel c are known: records what is to be recorded, and returns gamma / std.  S: the type of all
// that there is one of per channel.
template <class S>
S finish_channel(const BatchNormOptions& o, const Call& call, int64_t c, S mean, S variance) {
  ChannelOutput<S>(call, 1).set(c, mean);
  ChannelOutput<S>(call, 2).set(c, variance);
  if (o.use_batch_stats) {
    const auto keep = static_cast<S>(o.momentum), take = static_cast<S>(1 - o.momentum);
    S *moving_mean = call.state<S>(3) + c, *moving_var = call.state<S>(4) + c;
    *moving_mean = *moving_mean * keep + mean * take;
    *moving_var = *moving_var * keep + variance * take;
  }
  const S gamma = o.fix_gamma ? S(1) : call.input<S>(1)[c];
  return gamma / std::sqrt(variance + static_cast<S>(o.eps));
}

// The data gradient is a * g + b * (x - mean) + c.
template <class S>
struct Coefficients {
  S a, b, c;
};

// 1 / standard deviation of channel c, in backward.
template <class S>
double inverse_deviation(const BatchNormOptions& o, const Call& call, int64_t c) {
  return 1 / std::sqrt(static_cast<double>(call.input<S>(4)[c]) + o.eps);
}

// From the sums of g and of g * (x - mean) over channel c's `count` elements.
template <class S>
Coefficients<S> coefficients(const BatchNormOptions& o, const Call& call, int64_t c, double count, double total,
                             double moment) {
  const double inverse = inverse_deviation<S>(o, call, c);
  const double a = (o.fix_gamma ? 1.0 : call.input<S>(2)[c]) * inverse;
  if (!o.use_batch_stats) return {static_cast<S>(a), 0, 0};
  return {static_cast<S>(a), static_cast<S>(-a * inverse * inverse * moment / count), static_cast<S>(-a * total / count)};
}

// The same, and writes the parameters' gradients.
template <class S>
Coefficients<S> finish_channel_gradient(const BatchNormOptions& o, const Call& call, int64_t c, double count,
                                        double total, double moment) {
  const double inverse = inverse_deviation<S>(o, call, c);
  ChannelOutput<S>(call, 1).set(c, o.fix_gamma ? S(0) : static_cast<S>(moment * inverse));
  ChannelOutput<S>(call, 2).set(c, static_cast<S>(total));
  return coefficients<S>(o, call, c, count, total, moment);
}

template <class T>
constexpr int32_t type_of = std::is_same_v<T, double>  ? MX_FLOAT64
                            : std::is_same_v<T, float> ? MX_FLOAT32
                                                       : MX_BFLOAT16;

// Throws Unsupported unless the first `data` tensors hold T and all others its statistics.
template <class T>
void require_types(const std::vector<Spec>& specs, size_t data) {
  for (size_t i = 0; i < specs.size(); ++i)
    if (specs[i].dtype != (i < data ? type_of<T> : type_of<Statistic<T>>)) throw Unsupported{};
}

// All signatures of the operator have 5 inputs and 3 outputs forward, 7 and 3 backward. After the outputs, and after the
// inputs of backward, there may be the step of several devices that belong together. These throw Unsupported for others.
inline const Signature& forward_counted(const Signature& s) {
  require_counts(s, 5, 5, 3, 4);
  return s;
}
inline const Signature& backward_counted(const Signature& s) {
  require_counts(s, 7, 8, 3, 3);
  return s;
}
// Whether there is a step, the last of `specs`, if `others` come before it.
inline bool has_step(const std::vector<Spec>& specs, size_t others) {
  if (specs.size() == others) return false;
  if (specs.back().dtype != MX_INT64) throw Unsupported{};
  require_size(specs.back(), 1);
  return true;
}
// Types and sizes of tensors for data of T; the first `data` of them are like data, then there is one value a channel.
template <class T>
void require_tensors(std::vector<Spec> specs, size_t data, int64_t size, int64_t channels, size_t others) {
  if (has_step(specs, others)) specs.pop_back();
  require_types<T>(specs, data);
  for (size_t i = 0; i < specs.size(); ++i) require_size(specs[i], i < data ? size : channels);
}
template <class T>
void require_forward(const Signature& s, int64_t channels) {
  const int64_t size = s.inputs[0].size();
  require_tensors<T>(s.inputs, 1, size, channels, 5);
  require_tensors<T>(s.outputs, 1, size, channels, 3);
}
template <class T>
void require_backward(const Signature& s, int64_t channels) {
  const int64_t size = s.inputs[1].size();
  require_tensors<T>(s.inputs, 2, size, channels, 7);
  require_tensors<T>(s.outputs, 1, size, channels, 3);
}

// The step, where there is one: what a forward operation met others in, 0 if none.
inline void set_step(const Call& call, const Signature& s, int64_t number) {
  if (has_step(s.outputs, 3)) ChannelOutput<int64_t>(call, 3).set(0, number);
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
