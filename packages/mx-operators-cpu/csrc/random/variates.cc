// SPDX-License-Identifier: Apache-2.0
#include "random/variates.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "random/gamma_tries.hpp"
#include "random/random.hpp"
#include "simd/loops.hpp"
#include "mx_core/philox.hpp"
#include "common/parallel.hpp"
#include "common/scratch.hpp"
#include "elementwise/special_functions.hpp"
#include "common/upcast.hpp"

namespace mx::cpu {
namespace {

constexpr uint64_t kBoost = uint64_t{1} << 40, kCount = uint64_t{1} << 48;  // branches besides those of the tries
constexpr double kUnit = 0x1p-53;
constexpr double kPi = 3.14159265358979323846;
constexpr int64_t kChunk = kDelivered;
constexpr int64_t kFewTries = 8;  // below, numbers are tried one by one
static_assert(kChunk <= kTries);

// The counter of one element.
struct Counter {
  uint64_t key, value;
  const uint32_t* words;  // of branch 0: four

  // Two uniform numbers in [0, 1).
  std::pair<double, double> uniforms(uint64_t branch) const {
    if (branch == 0) return pair_of(words);
    return pair_of(philox::block(key, value, branch).words);
  }
  static std::pair<double, double> pair_of(const uint32_t* w) {
    return {philox::uniform64(philox::join(w[0], w[1])), philox::uniform64(philox::join(w[2], w[3]))};
  }
  double normal(uint64_t branch) const {
    const auto [u, v] = uniforms(branch);
    return std::sqrt(-2 * std::log(u + kUnit)) * std::cos(2 * kPi * v);
  }
};

// Marsaglia and Tsang, A simple method for generating gamma variables, 2000.
double gamma(const Counter& counter, double shape) {
  const double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  double result = 0;
  for (uint64_t branch = 0;; branch += 2) {
    const double x = counter.normal(branch), u = counter.uniforms(branch + 1).first;
    const double root = 1 + c * x, v = root * root * root;
    if (!(v > 0)) continue;
    const bool surely = u < 1 - 0.0331 * x * x * x * x;  // spares most logarithms
    if (!surely && !(std::log(u + kUnit) < 0.5 * x * x + d * (1 - v + std::log(v)))) continue;
    result = d * v;
    break;
  }
  return shape < 1 ? result * std::pow(counter.uniforms(kBoost).first + kUnit, 1 / shape) : result;
}

// log k!: exact for small numbers, then Stirling's series.
double log_factorial(double k) {
  static const std::array<double, 16> small = [] {
    std::array<double, 16> made{};
    for (size_t i = 0; i < made.size(); ++i) made[i] = rare::gammaln(static_cast<double>(i) + 1);
    return made;
  }();
  if (k < 16) return small[static_cast<size_t>(k)];
  return (k + 0.5) * std::log(k) - k + 0.5 * std::log(2 * kPi) + 1 / (12 * k) - 1 / (360 * k * k * k);
}

// `none` is the probability of 0.  Below a rate of 10 by inversion, above by transformed rejection: Hörmann, The transformed rejection
// method for generating Poisson random variables, 1993.
double poisson(const Counter& counter, double rate, double none, uint64_t first) {
  if (rate < 10) {
    const double u = counter.uniforms(first).first;
    double term = none, total = term;
    int count = 0;
    for (int k = 1; k < 100 && u >= total; ++k) {
      count = k;
      term = term * rate / k;
      total += term;
    }
    return count;
  }
  if (!std::isfinite(rate)) return std::numeric_limits<double>::infinity();
  const double b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), accept = 0.9277 - 3.6224 / (b - 2);
  const double log_rate = std::log(rate);
  for (uint64_t branch = first + 2;; branch += 2) {
    auto [u, v] = counter.uniforms(branch);
    u -= 0.5;
    v += kUnit;
    const double edge = std::max(0.5 - std::fabs(u), 0x1p-54);
    const double k = std::floor((2 * a / edge + b) * u + rate + 0.43);
    if (edge >= 0.07 && v <= accept) return k;
    if (!(k >= 0) || (edge < 0.013 && v > edge)) continue;
    if (std::log(v * inverse_alpha / (a / (edge * edge) + b)) <= k * log_rate - rate - log_factorial(k)) return k;
  }
}

// A Poisson number of gamma rate.
double counted(const Counter& counter, double rate) { return poisson(counter, rate, std::exp(-rate), kCount); }

double negative_binomial(const Counter& counter, double k, double p) {
  return counted(counter, gamma(counter, k) * ((1 - p) / p));
}

double generalized(const Counter& counter, double mean, double dispersion) {
  if (!(dispersion > std::numeric_limits<double>::min())) return counted(counter, mean);
  const double rate = mean > 0 ? gamma(counter, 1 / dispersion) * (mean * dispersion) : 0.0;
  return counted(counter, rate);
}

double number(Variate variate, const Counter& counter, double a, double b) {
  switch (variate) {
    case Variate::kUniform:
      return a + counter.uniforms(0).first * (b - a);
    case Variate::kNormal:
      return a + counter.normal(0) * b;
    case Variate::kExponential:
      return -std::log1p(-counter.uniforms(0).first) / a;
    case Variate::kGamma:
      return gamma(counter, a) * b;
    case Variate::kPoisson:
      return poisson(counter, a, b, 0);
    case Variate::kNegativeBinomial:
      return negative_binomial(counter, a, b);
    case Variate::kGeneralized:
      return generalized(counter, a, b);
  }
  return 0;
}

// What a parameter may be: from `low` on, itself included or not, to `high`.
struct Bounds {
  const char* name;
  double low, high;
  bool included;

  bool allow(double x) const {
    return std::isfinite(x) && (included ? x >= low : x > low) && x <= high;
  }
};

std::vector<Bounds> bounds_of(Variate variate) {
  constexpr double top = std::numeric_limits<double>::infinity();
  switch (variate) {
    case Variate::kUniform:
      return {{"low", -top, top, true}, {"high", -top, top, true}};
    case Variate::kNormal:
      return {{"mu", -top, top, true}, {"sigma", 0, top, true}};
    case Variate::kExponential:
      return {{"lam", 0, top, false}};
    case Variate::kGamma:
      return {{"alpha", 0, top, false}, {"beta", 0, top, false}};
    case Variate::kPoisson:
      return {{"lam", 0, top, true}};
    case Variate::kNegativeBinomial:
      return {{"k", 0, top, false}, {"p", 0, 1, false}};
    case Variate::kGeneralized:
      return {{"mu", 0, top, true}, {"alpha", 0, top, true}};
  }
  return {};
}

class VariatePlan final : public Plan {
 public:
  VariatePlan(std::vector<Spec> inputs, std::vector<Spec> outputs, const VariateOptions& options)
      : Plan(std::move(inputs), std::move(outputs),
             options.arrays ? 0 : static_cast<uint32_t>(bounds_of(options.variate).size())),
        o_(options),
        bounds_(bounds_of(options.variate)) {
    random_blocks = static_cast<uint64_t>(outputs_[0].size());
    if (outputs_[0].size() > 2 * kChunk) set_parallel();
  }

 protected:
  void execute(const Call& call) const override {
    const int64_t n = outputs_[0].size();
    if (!o_.arrays) {
      for (size_t i = 0; i < bounds_.size(); ++i) check(i, call.scalar(i));
    } else {
      for (size_t i = 0; i < bounds_.size(); ++i) check_all(call, i);
    }
    if (!call.wanted(0)) return;
    parallel_for((n + kChunk - 1) / kChunk, 1, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        double values[kChunk];
        const int64_t first = c * kChunk, some = std::min(kChunk, n - first);
        draw(call, first, some, values);
        deliver(call, 0, outputs_[0], F64, values, first, some);
      }
    });
  }

 private:
  void check(size_t i, double x) const {
    if (bounds_[i].allow(x)) return;
    throw Error(MX_ERROR_VALUE, "[" + o_.op + "] " + bounds_[i].name + ": expected finite numbers " +
                                    (bounds_[i].included ? "≥ " : "> ") + shown(bounds_[i].low) +
                                    (std::isinf(bounds_[i].high) ? "" : ", ≤ " + shown(bounds_[i].high)) + ", got " +
                                    got(x));
  }

  // Means of exponential numbers are given more often than rates.
  std::string got(double x) const {
    return shown(x) + (o_.variate == Variate::kExponential && x != 0 ? " = 1 / " + shown(1 / x) : "");
  }

  double parameter(const Call& call, size_t i, int64_t element) const {
    const Spec& spec = inputs_[i];
    double x;
    loops().load[spec.dtype][F64](&x, call.input(i) + static_cast<size_t>(element) * item_size(spec.dtype), 1);
    return x;
  }

  void check_all(const Call& call, size_t i) const {
    for (int64_t e = 0; e < inputs_[i].size(); ++e) check(i, parameter(call, i, e));
  }

  void draw(const Call& call, int64_t first, int64_t n, double* values) const {
    double a = 0, b = 0;  // parameters; of Poisson numbers the rate, and the probability of 0
    alignas(64) uint32_t words[4 * kChunk];
    const uint64_t start = call.context.random_offset + static_cast<uint64_t>(first);
    loops().philox(words, call.context.random_key, start, 0, static_cast<size_t>(n));
    alignas(64) uint32_t uniform_words[4 * kTries];  // of the first tries of gamma numbers
    const bool tries = o_.variate == Variate::kGamma;
    if (tries) loops().philox(uniform_words, call.context.random_key, start, 1, static_cast<size_t>(n));
    int64_t tried = first;  // up to here
    for (int64_t i = first; i < first + n; ++i) {
      if (i == first || (o_.arrays && i % o_.each == 0)) {
        a = o_.arrays ? parameter(call, 0, i / o_.each) : call.scalar(0);
        if (bounds_.size() > 1) b = o_.arrays ? parameter(call, 1, i / o_.each) : call.scalar(1);
        if (o_.variate == Variate::kPoisson) b = std::exp(-a);
        const int64_t end = o_.arrays ? std::min(first + n, (i / o_.each + 1) * o_.each) : first + n;
        if (tries && a >= 1 && end - i >= kFewTries) {
          gamma_tries(words + 4 * (i - first), uniform_words + 4 * (i - first), a, values + (i - first), end - i);
          tried = end;
        }
      }
      if (i < tried && values[i - first] > 0) {
        values[i - first] *= b;
        continue;
      }
      const Counter counter{call.context.random_key, start + static_cast<uint64_t>(i - first), words + 4 * (i - first)};
      values[i - first] = number(o_.variate, counter, a, b);
    }
  }

  const VariateOptions o_;
  const std::vector<Bounds> bounds_;
};

// How many of n ascending numbers are not above x; without branches that depend on them.
int64_t above(const double* numbers, int64_t n, double x) {
  const double* from = numbers;
  for (int64_t half = n / 2; n > 1; n -= half, half = n / 2) from += x < from[half - 1] ? 0 : half;
  return from - numbers + (x < *from ? 0 : 1);
}

class MultinomialPlan final : public Plan {
 public:
  MultinomialPlan(std::vector<Spec> inputs, std::vector<Spec> outputs, int64_t each)
      : Plan(std::move(inputs), std::move(outputs)), each_(each), rows_(inputs_[0].shape[0]), classes_(inputs_[0].shape[1]) {
    random_blocks = static_cast<uint64_t>(rows_ * each_ + 1) / 2;
    if (inputs_[0].size() + outputs_[0].size() > (32 << 10)) set_parallel();
    sums_ = add_thread_scratch(2 * static_cast<size_t>(classes_) * sizeof(double));
  }

 protected:
  void execute(const Call& call) const override {
    parallel_for(rows_, 1, [&](int64_t begin, int64_t end, int thread) {
      const auto classes = static_cast<size_t>(classes_);
      const Span<double> weights(sums_.of<double>(call, thread), classes), sums(weights.end(), classes);
      for (int64_t row = begin; row < end; ++row) {
        const int dtype = inputs_[0].dtype;
        loops().load[dtype][F64](weights.data(), call.input(0) + static_cast<size_t>(row * classes_) * item_size(dtype),
                                 weights.size());
        double sum = 0;
        bool fine = true;
        for (size_t k = 0; k < weights.size(); ++k) {
          fine = fine && weights[k] >= 0;
          sums[k] = sum += weights[k];
        }
        if (!fine || !(sum > 0) || std::isinf(sum)) refuse(weights, row);
        draw(call, row, weights, sums);
      }
    });
  }

 private:
  [[noreturn]] static void refuse(Span<double> weights, int64_t row) {
    const std::string begin = "[_sample_multinomial] data: expected ", end = " in row " + std::to_string(row);
    for (size_t k = 0; k < weights.size(); ++k)
      if (!(weights[k] >= 0) || std::isinf(weights[k]))
        throw Error(MX_ERROR_VALUE, begin + "finite probabilities ≥ 0, got " + shown(weights[k]) + end);
    throw Error(MX_ERROR_VALUE, begin + "a finite sum > 0 of probabilities" + end);
  }

  void draw(const Call& call, int64_t row, Span<double> weights, Span<double> sums) const {
    for (int64_t start = row * each_; start < (row + 1) * each_; start += kChunk) {
      const int64_t n = std::min(kChunk, (row + 1) * each_ - start);
      int64_t found[kChunk];
      double logarithms[kChunk];
      alignas(64) uint32_t words[2 * kChunk + 4];
      loops().philox(words, call.context.random_key, call.context.random_offset + static_cast<uint64_t>(start / 2), 0,
                     static_cast<size_t>(start % 2 + n + 1) / 2);
      const bool wanted = outputs_.size() > 1 && call.wanted(1);
      for (int64_t i = 0; i < n; ++i) {
        const uint32_t* own = words + 2 * (start % 2 + i);
        const double u = philox::uniform64(philox::join(own[0], own[1]));
        found[i] = std::min(above(sums.data(), classes_, u * sums.back()), classes_ - 1);
        if (wanted) logarithms[i] = std::log(weights[static_cast<size_t>(found[i])]);
      }
      if (call.wanted(0)) deliver(call, 0, outputs_[0], I64, found, start, n);
      if (wanted) deliver(call, 1, outputs_[1], F64, logarithms, start, n);
    }
  }

  const int64_t each_, rows_, classes_;
  PerThread sums_;  // a row's weights, and their sums up to each
};

}  // namespace

PlanPtr make_variate_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const VariateOptions& o) {
  const size_t parameters = bounds_of(o.variate).size();
  bool agree = outputs.size() == 1 && o.each >= 0 && (!o.arrays || inputs.size() == parameters);
  for (size_t i = 0; o.arrays && agree && i < parameters; ++i)
    agree = inputs[i].size() * o.each == outputs[0].size();
  fits(agree, o.op.c_str());
  return std::make_unique<VariatePlan>(std::move(inputs), std::move(outputs), o);
}

PlanPtr make_multinomial_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, int64_t each) {
  bool agree = inputs.size() == 1 && inputs[0].shape.size() == 2 && inputs[0].shape[1] > 0 && !outputs.empty() &&
              outputs.size() <= 2 && each >= 0;
  for (const Spec& spec : outputs) agree = agree && spec.size() == inputs[0].shape[0] * each;
  fits(agree, "_sample_multinomial");
  return std::make_unique<MultinomialPlan>(std::move(inputs), std::move(outputs), each);
}

}  // namespace mx::cpu
