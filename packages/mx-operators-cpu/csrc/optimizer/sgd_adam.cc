// SPDX-License-Identifier: Apache-2.0
#include "optimizer/sgd_adam.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/clones.hpp"
#include "common/parallel.hpp"
#include "common/upcast.hpp"

// Arrays are apart, or one: the result may be written to the weight itself.
#define MX_SAME_PLACE _Pragma("GCC ivdep")

namespace mx::cpu {
namespace {

constexpr int64_t kPiece = 16 << 10;  // elements a thread updates at a time
constexpr size_t kSettings = 8;

// What settings mean by position; kBeta1 is the momentum where there is one.
enum : size_t { kRate, kDecay, kScale, kClip, kBeta1, kBeta2, kEpsilon, kEta };

// The settings of a step, what they amount to computed in double.
struct Numbers {
  float rate, decay, scale, low, high, beta1, rest1, beta2, rest2, epsilon, eta;
};

Numbers numbers_of(const std::array<double, kSettings>& s) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double limit = s[kClip] >= 0 ? s[kClip] : kInfinity;
  const auto f = [](double x) { return static_cast<float>(x); };
  return {f(s[kRate]), f(s[kDecay]), f(s[kScale]), f(-limit), f(limit), f(s[kBeta1]), f(1 - s[kBeta1]),
          f(s[kBeta2]), f(1 - s[kBeta2]), f(s[kEpsilon]), f(s[kEta])};
}

// NaN stays.
MX_INLINE float clipped(float x, const Numbers& s) {
  x = x < s.low ? s.low : x;
  return x > s.high ? s.high : x;
}

MX_CLONES(void, sgd, (float* to, const float* w, const float* g, const Numbers& s, int64_t n), (to, w, g, s, n)) {
  MX_SAME_PLACE
  for (int64_t i = 0; i < n; ++i) to[i] = w[i] - s.rate * (clipped(g[i] * s.scale, s) + s.decay * w[i]);
}

MX_CLONES(void, momentum, (float* to, const float* w, const float* g, float* state, const Numbers& s, int64_t n),
          (to, w, g, state, s, n)) {
  MX_SAME_PLACE
  for (int64_t i = 0; i < n; ++i) {
    state[i] = s.beta1 * state[i] - s.rate * (clipped(g[i] * s.scale, s) + s.decay * w[i]);
    to[i] = w[i] + state[i];
  }
}

MX_INLINE float moment_ratio(float g, float& mean, float& variance, const Numbers& s) {
  mean = s.beta1 * mean + s.rest1 * g;
  variance = s.beta2 * variance + s.rest2 * (g * g);
  return s.rate * mean / (std::sqrt(variance) + s.epsilon);
}

MX_CLONES(void, adam, (float* to, const float* w, const float* g, float* mean, float* variance, const Numbers& s,
                       int64_t n), (to, w, g, mean, variance, s, n)) {
  MX_SAME_PLACE
  for (int64_t i = 0; i < n; ++i)
    to[i] = w[i] - moment_ratio(clipped(g[i] * s.scale + s.decay * w[i], s), mean[i], variance[i], s);
}

MX_CLONES(void, adamw, (float* to, const float* w, const float* g, float* mean, float* variance, const Numbers& s,
                        int64_t n), (to, w, g, mean, variance, s, n)) {
  MX_SAME_PLACE
  for (int64_t i = 0; i < n; ++i)
    to[i] = w[i] - s.eta * (moment_ratio(clipped(g[i] * s.scale, s), mean[i], variance[i], s) + s.decay * w[i]);
}

size_t states_of(UpdateRule rule) { return rule == UpdateRule::kSgd ? 0 : rule == UpdateRule::kMomentum ? 1 : 2; }

class UpdatePlan final : public Plan {
 public:
  UpdatePlan(std::vector<Spec> inputs, std::vector<Spec> outputs, UpdateRule rule, std::vector<Update> updates,
             uint32_t n_scalars)
      : Plan(std::move(inputs), std::move(outputs), n_scalars), rule_(rule), updates_(std::move(updates)),
        numbers_(add_scratch<Numbers>(static_cast<int64_t>(updates_.size()))),
        taken_(add_scratch<bool>(static_cast<int64_t>(updates_.size()))) {
    for (size_t u = 0; u < updates_.size(); ++u)
      for (int64_t first = 0; first < inputs_[updates_[u].first].size(); first += kPiece) pieces_.push_back({u, first});
  }

 protected:
  void execute(const Call& call) const override {
    auto* numbers = call.scratch<Numbers>(numbers_);
    auto* taken = call.scratch<bool>(taken_);
    for (size_t u = 0; u < updates_.size(); ++u) {
      const std::array<double, kSettings> settings = settings_of(call, updates_[u]);
      numbers[u] = numbers_of(settings);
      taken[u] = rule_ != UpdateRule::kAdamW || (std::isfinite(settings[kScale]) && settings[kScale] != 0);
    }
    parallel_for(static_cast<int64_t>(pieces_.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const auto [u, first] = pieces_[static_cast<size_t>(p)];
        const int64_t last = std::min(first + kPiece, inputs_[updates_[u].first].size());
        const uint32_t output = updates_[u].output;
        if (call.wanted(output) && !call.adds(output)) {
          float* to = reinterpret_cast<float*>(call.output(output)) + first;
          step(call, updates_[u], numbers[u], taken[u], first, last - first, to);
          continue;
        }
        alignas(64) float made[kDelivered];
        for (int64_t i = first; i < last; i += kDelivered) {
          const int64_t n = std::min(kDelivered, last - i);
          step(call, updates_[u], numbers[u], taken[u], i, n, made);
          if (call.wanted(output)) deliver(call, output, outputs_[output], F32, made, i, n);
        }
      }
    });
  }

 private:
  std::array<double, kSettings> settings_of(const Call& call, const Update& update) const {
    std::array<double, kSettings> made{};
    for (size_t i = 0; i < update.settings.size(); ++i) {
      const Setting& s = update.settings[i];
      made[i] = s.input    ? static_cast<double>(reinterpret_cast<const float*>(call.input(*s.input))[s.element])
                : s.scalar ? call.scalar(*s.scalar)
                           : s.number;
    }
    return made;
  }

  void step(const Call& call, const Update& update, const Numbers& numbers, bool taken, int64_t first, int64_t n,
            float* to) const {
    const auto at = [&](uint32_t k) { return reinterpret_cast<float*>(call.state(update.first + k)) + first; };
    if (!taken) {
      std::memmove(to, at(0), static_cast<size_t>(n) * sizeof(float));
    } else if (rule_ == UpdateRule::kSgd) {
      sgd(to, at(0), at(1), numbers, n);
    } else if (rule_ == UpdateRule::kMomentum) {
      momentum(to, at(0), at(1), at(2), numbers, n);
    } else {
      (rule_ == UpdateRule::kAdam ? adam : adamw)(to, at(0), at(1), at(2), at(3), numbers, n);
    }
  }

  const UpdateRule rule_;
  const std::vector<Update> updates_;
  std::vector<std::pair<size_t, int64_t>> pieces_;
  const Section numbers_, taken_;  // of every update
};

}  // namespace

PlanPtr make_update_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, UpdateRule rule,
                         std::vector<Update> updates, uint32_t n_scalars) {
  for (const Update& update : updates) {
    fits(update.first + 2 + states_of(rule) <= inputs.size() && update.output < outputs.size(), "update");
    for (size_t k = 0; k < 2 + states_of(rule); ++k)
      fits(inputs[update.first + k].size() == outputs[update.output].size() && inputs[update.first + k].dtype == MX_FLOAT32,
           "update");
    fits(outputs[update.output].dtype == MX_FLOAT32 && update.settings.size() <= kSettings, "update");
    for (const Setting& s : update.settings)
      fits((!s.scalar || *s.scalar < n_scalars) &&
               (!s.input || (*s.input < inputs.size() && inputs[*s.input].dtype == MX_FLOAT32 &&
                             static_cast<int64_t>(s.element) < inputs[*s.input].size())),
           "update");
  }
  return std::make_unique<UpdatePlan>(std::move(inputs), std::move(outputs), rule, std::move(updates), n_scalars);
}

}  // namespace mx::cpu
