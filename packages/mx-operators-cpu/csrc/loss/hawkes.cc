// SPDX-License-Identifier: Apache-2.0
#include "loss/hawkes.hpp"

#include <algorithm>
#include <cmath>

#include "common/parallel.hpp"
#include "common/scratch.hpp"
#include "common/upcast.hpp"

namespace mx::cpu {
namespace {

const char* const kName = "_contrib_hawkesll";

// One sequence, computed in double: its likelihood, state, and slopes by mark.
class Sequence {
 public:
  // Numbers for every mark that a sequence needs.
  static constexpr size_t kArrays = 6;
  // `memory`: for kArrays arrays.
  Sequence(size_t kinds, double* memory) {
    for (Span<double>* array : {&state, &by_background, &by_branching, &by_decay, &last_, &state_by_decay_}) {
      *array = {memory, kinds};
      memory += kinds;
    }
  }

  // `decay_until` for every mark, events as they come.
  template <class T>
  void run(const T* background, const T* branching, const T* decay, const T* start, const T* lags, const T* marks,
           int64_t events, double length, double end) {
    const auto kinds = static_cast<int64_t>(state.size());
    total = 0;
    for (int64_t k = 0; k < kinds; ++k) {
      const auto i = static_cast<size_t>(k);
      state[i] = static_cast<double>(start[k]);
      by_background[i] = by_branching[i] = by_decay[i] = last_[i] = state_by_decay_[i] = 0;
    }
    double time = 0;
    for (int64_t e = 0; e < events && static_cast<double>(e) < length; ++e) {
      if (!(marks[e] > -1 && marks[e] < static_cast<T>(kinds)))
        throw Error(MX_ERROR_INDEX, std::string("[") + kName + "] marks: expected 0 to " + std::to_string(kinds - 1) +
                                        ", got " + std::to_string(marks[e]));
      const auto k = static_cast<int64_t>(marks[e]);
      const auto i = static_cast<size_t>(k);
      time += static_cast<double>(lags[e]);
      const auto a = static_cast<double>(branching[k]), b = static_cast<double>(decay[k]);
      decay_until(i, time, a, b);
      const double intensity = static_cast<double>(background[k]) + a * b * state[i];
      total += std::log(intensity);
      by_background[i] += 1 / intensity;
      by_branching[i] += b * state[i] / intensity;
      by_decay[i] += a * (state[i] + b * state_by_decay_[i]) / intensity;
      state[i] += 1;
    }
    double rate = 0;
    for (int64_t k = 0; k < kinds; ++k) {
      const auto i = static_cast<size_t>(k);
      decay_until(i, end, static_cast<double>(branching[k]), static_cast<double>(decay[k]));
      rate += static_cast<double>(background[k]) * end;
      by_background[i] -= end;
    }
    total -= rate;
  }

  double total = 0;
  Span<double> state, by_background, by_branching, by_decay;

 private:
  // Lets a state decay until now, and takes what its intensity added up to from the likelihood.
  void decay_until(size_t i, double now, double a, double b) {
    const double lag = now - last_[i], left = std::exp(-b * lag), gone = state[i] * (1 - left);
    total -= a * gone;
    by_branching[i] -= gone;
    by_decay[i] -= a * (state_by_decay_[i] * (1 - left) + state[i] * lag * left);
    state_by_decay_[i] = state_by_decay_[i] * left - state[i] * lag * left;
    state[i] *= left;
    last_[i] = now;
  }

  Span<double> last_;  // when each mark came last
  Span<double> state_by_decay_;
};

// Runs all sequences; `inputs` begin at input `from` of the plan.
class HawkesBase : public UpcastPlan {
 public:
  HawkesBase(std::vector<Spec> inputs, std::vector<Spec> outputs, size_t from)
      : UpcastPlan(inputs, outputs, inputs[from].dtype, 64 * inputs[from + 4].size()),
        from_(from),
        sequences_(inputs[from].shape[0]),
        kinds_(inputs[from].shape[1]),
        events_(sequences_ > 0 ? inputs[from + 4].size() / sequences_ : 0),
        marks_(add_thread_scratch(Sequence::kArrays * static_cast<size_t>(kinds_) * sizeof(double))) {}

 protected:
  template <class T, class Visit>
  void run(const Call& call, Visit&& visit) const {
    const T* in[8];
    for (size_t i = 0; i < 8; ++i) in[i] = read<T>(call, from_ + i);
    parallel_for(sequences_, 1, [&](int64_t begin, int64_t end, int thread) {
      Sequence sequence(static_cast<size_t>(kinds_), marks_.of<double>(call, thread));
      for (int64_t n = begin; n < end; ++n) {
        sequence.run(in[0] + n * kinds_, in[1], in[2], in[3] + n * kinds_, in[4] + n * events_, in[5] + n * events_,
                     events_, static_cast<double>(in[6][n]), static_cast<double>(in[7][n]));
        visit(n, sequence);
      }
    });
  }

  const size_t from_;
  const int64_t sequences_, kinds_, events_;
  const PerThread marks_;
};

class HawkesPlan final : public HawkesBase {
 public:
  HawkesPlan(std::vector<Spec> inputs, std::vector<Spec> outputs) : HawkesBase(std::move(inputs), std::move(outputs), 0) {}

 protected:
  void execute(const Call& call) const override { type_ == F64 ? compute<double>(call) : compute<float>(call); }

 private:
  template <class T>
  void compute(const Call& call) const {
    Result<T> likelihood(*this, call, 0), state(*this, call, 1);
    run<T>(call, [&](int64_t n, const Sequence& sequence) {
      if (likelihood.data() != nullptr) likelihood.data()[n] = static_cast<T>(sequence.total);
      if (state.data() == nullptr) return;
      for (int64_t k = 0; k < kinds_; ++k)
        state.data()[n * kinds_ + k] = static_cast<T>(sequence.state[static_cast<size_t>(k)]);
    });
    likelihood.deliver();
    state.deliver();
  }
};

class HawkesBackward final : public HawkesBase {
 public:
  HawkesBackward(std::vector<Spec> inputs, std::vector<Spec> outputs)
      : HawkesBase(std::move(inputs), std::move(outputs), 1),
        slopes_{add_scratch<double>(sequences_ * kinds_), add_scratch<double>(sequences_ * kinds_)} {}

 protected:
  void execute(const Call& call) const override { type_ == F64 ? compute<double>(call) : compute<float>(call); }

 private:
  template <class T>
  void compute(const Call& call) const {
    Result<T> background(*this, call, 0), branching(*this, call, 1), decay(*this, call, 2);
    const T* head = read<T>(call, 0);
    double* const slopes[] = {call.scratch<double>(slopes_[0]), call.scratch<double>(slopes_[1])};
    run<T>(call, [&](int64_t n, const Sequence& sequence) {
      const auto g = static_cast<double>(head[n]);
      for (int64_t k = 0; k < kinds_; ++k) {
        const auto i = static_cast<size_t>(k), at = static_cast<size_t>(n * kinds_ + k);
        if (background.data() != nullptr) background.data()[at] = static_cast<T>(g * sequence.by_background[i]);
        slopes[0][at] = g * sequence.by_branching[i];
        slopes[1][at] = g * sequence.by_decay[i];
      }
    });
    add_up(slopes[0], branching.data());
    add_up(slopes[1], decay.data());
    background.deliver();
    branching.deliver();
    decay.deliver();
  }

  template <class T>
  void add_up(const double* slopes, T* to) const {
    for (int64_t k = 0; to != nullptr && k < kinds_; ++k) {
      double sum = 0;
      for (int64_t n = 0; n < sequences_; ++n) sum += slopes[n * kinds_ + k];
      to[k] = static_cast<T>(sum);
    }
  }

  const Section slopes_[2];  // by branching and by decay, of every sequence
};

void check_hawkes(const std::vector<Spec>& inputs, size_t from) {
  fits(inputs.size() == from + 8 && inputs[from].shape.size() == 2, kName);
  const Spec* in = &inputs[from];
  const int64_t sequences = in[0].shape[0], kinds = in[0].shape[1];
  fits(in[1].size() == kinds && in[2].size() == kinds && in[3].size() == in[0].size() &&
           in[4].size() == in[5].size() && in[4].shape.size() == 2 && in[4].shape[0] == sequences &&
           in[6].size() == sequences && in[7].size() == sequences,
       kName);
}

}  // namespace

PlanPtr make_hawkes_plan(std::vector<Spec> inputs, std::vector<Spec> outputs) {
  check_hawkes(inputs, 0);
  fits(outputs.size() == 2 && outputs[0].size() == inputs[6].size() && outputs[1].size() == inputs[0].size(), kName);
  return std::make_unique<HawkesPlan>(std::move(inputs), std::move(outputs));
}

PlanPtr make_hawkes_backward_plan(std::vector<Spec> inputs, std::vector<Spec> outputs) {
  check_hawkes(inputs, 1);
  fits(outputs.size() == 3 && inputs[0].size() == inputs[7].size() && outputs[0].size() == inputs[1].size() &&
           outputs[1].size() == inputs[2].size() && outputs[2].size() == inputs[3].size(),
       kName);
  return std::make_unique<HawkesBackward>(std::move(inputs), std::move(outputs));
}

}  // namespace mx::cpu
