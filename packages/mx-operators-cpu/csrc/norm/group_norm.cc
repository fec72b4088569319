// SPDX-License-Identifier: Apache-2.0
//
// GroupNorm (Wu and He, arXiv:1803.08494) and InstanceNorm, whose groups are single channels.  A
// group of one example is one contiguous run.  T: float, BFloat16 or double, of all
// tensors but the statistics, which are float where the tensors are BFloat16.
#include <cmath>

#include "common/shape.hpp"
#include "norm/norm.hpp"
#include "norm/channel_loops.hpp"
#include "common/float_types.hpp"

namespace mx::cpu {
namespace {

template <class T>
void store(T* target, double value, bool add) {
  using S = Statistic<T>;
  const auto rounded = static_cast<S>(value);
  *target = T(add ? S(*target) + rounded : rounded);
}

struct Groups {
  int64_t examples, groups, length;
  Groups(const Dims& data, int64_t n)
      : examples(extent(data, 0)), groups(n), length(product(data, 1, data.size()) / std::max<int64_t>(n, 1)) {
    if (n < 1 || length * n != product(data, 1, data.size())) throw Unsupported{};
  }
  int64_t rows() const { return examples * groups; }
};

template <class T>
class GroupNorm final : public Plan {
  using S = Statistic<T>;

 public:
  GroupNorm(const Signature& s, const GroupNormOptions& o)
      : Plan(counted(s, 3, 3), bandwidth_cost(s)), v_(s.inputs[0].shape, o.groups), eps_(o.eps) {
    const int64_t n = s.inputs[0].size();
    require_sizes(s.inputs, {n, v_.groups, v_.groups});
    require_sizes(s.outputs, {n, v_.rows(), v_.rows()});
  }

 private:
  void execute(const Call& call) const override {
    parallel_shares(v_.rows(), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) row(call, r);
    });
  }

  void row(const Call& call, int64_t r) const {
    const Block run = run_of(v_.length);
    const auto count = static_cast<double>(v_.length);
    const T* x = call.input<T>(0) + r * v_.length;
    double result;
    sums(x, run, &result);
    const auto mean = static_cast<S>(result / count);
    squared_deviations(x, &mean, run, &result);
    const double std = std::sqrt(result / count + eps_);
    if (call.wanted(1)) store(call.output<S>(1) + r, mean, call.adds(1));
    if (call.wanted(2)) store(call.output<S>(2) + r, std, call.adds(2));
    if (!call.wanted(0)) return;
    const int64_t group = r % v_.groups;
    const S gamma(call.input<T>(1)[group]), shift(call.input<T>(2)[group]);
    const auto scale = static_cast<S>(gamma / std);
    normalize(x, &mean, &scale, &shift, call.output<T>(0) + r * v_.length, run, call.adds(0));
  }

  const Groups v_;
  const double eps_;
};

template <class T>
class GroupNormBackward final : public Plan {
  using S = Statistic<T>;

 public:
  GroupNormBackward(const Signature& s, const GroupNormOptions& o)
      : Plan(counted(s, 5, 3), bandwidth_cost(s)), v_(s.inputs[1].shape, o.groups) {
    const int64_t n = s.inputs[1].size();
    require_sizes(s.inputs, {n, n, v_.groups, v_.rows(), v_.rows()});
    require_sizes(s.outputs, {n, v_.groups, v_.groups});
    add_scratch(static_cast<size_t>(v_.rows()) * 2 * sizeof(double));  // per row: its share of both gradients
  }

 private:
  void execute(const Call& call) const override {
    auto* shares = static_cast<double*>(call.context.scratch[0]);
    parallel_shares(v_.rows(), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) row(call, r, shares + 2 * r);
    });
    for (int64_t group = 0; group < v_.groups; ++group) {
      double gamma_grad = 0, beta_grad = 0;
      for (int64_t r = group; r < v_.rows(); r += v_.groups) {
        gamma_grad += shares[2 * r];
        beta_grad += shares[2 * r + 1];
      }
      if (call.wanted(1)) store(call.output<T>(1) + group, gamma_grad, call.adds(1));
      if (call.wanted(2)) store(call.output<T>(2) + group, beta_grad, call.adds(2));
    }
  }

  void row(const Call& call, int64_t r, double* share) const {
    const Block run = run_of(v_.length);
    const auto count = static_cast<double>(v_.length);
    const T *g = call.input<T>(0) + r * v_.length, *x = call.input<T>(1) + r * v_.length;
    const S mean = call.input<S>(3)[r], std = call.input<S>(4)[r];
    const double inverse = 1 / static_cast<double>(std);
    double total, moment;
    gradient_sums(g, x, &mean, run, &total, &moment);
    share[0] = moment * inverse;
    share[1] = total;
    if (!call.wanted(0)) return;
    const double scale = S(call.input<T>(2)[r % v_.groups]) * inverse;
    const auto a = static_cast<S>(scale), b = static_cast<S>(-scale * inverse * inverse * moment / count),
               c = static_cast<S>(-scale * total / count);
    combine(g, x, &mean, &a, &b, &c, call.output<T>(0) + r * v_.length, run, call.adds(0));
  }

  const Groups v_;
};

}  // namespace

PlanPtr group_norm(const Signature& s, const GroupNormOptions& options) {
  if (all_double(counted(s, 3, 3))) return std::make_unique<GroupNorm<double>>(s, options);
  if (all_float(s, {}, {1, 2})) return std::make_unique<GroupNorm<float>>(s, options);
  return std::make_unique<GroupNorm<BFloat16>>(s, options);
}

PlanPtr group_norm_backward(const Signature& s, const GroupNormOptions& options) {
  if (all_double(counted(s, 5, 3))) return std::make_unique<GroupNormBackward<double>>(s, options);
  if (all_float(s, {3, 4})) return std::make_unique<GroupNormBackward<float>>(s, options);
  return std::make_unique<GroupNormBackward<BFloat16>>(s, options);
}

}  // namespace mx::cpu
