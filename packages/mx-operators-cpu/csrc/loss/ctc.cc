// SPDX-License-Identifier: Apache-2.0
//
// Forward and backward variables are kept as numbers that sum to 1 in every step, their sums as
// logarithms: no exponential but those of the softmax.  A sequence whose variables leave the range of
// double where that could count is computed again in the log domain.
#include "loss/ctc.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/clones.hpp"
#include "simd/loops.hpp"
#include "mx_core/expression.h"
#include "common/parallel.hpp"
#include "common/upcast.hpp"

namespace mx::cpu {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kTiny = 1e-290;
// As long as the logarithm of the result is above, what was lost below kTiny is nothing compared with it.
constexpr double kSafe = -600;

// The path of one label: blanks and labels by turns, U labels and U + 1 blanks.
struct Path {
  int64_t steps, labels;
  const int64_t* classes;  // of the labels
  const double* advance;   // 1 where a label may follow the one before without a blank
  double* emitted;         // (steps, labels + 1): probabilities of the labels, then of the blank
  double* forward;         // (steps, 2 * labels + 1): of the labels, then of the blanks
  double* row;             // 4 rows of labels + 1

  const double* at(int64_t t) const { return emitted + t * (labels + 1); }
  double* label_states(int64_t t) const { return forward + t * (2 * labels + 1); }
  double* blank_states(int64_t t) const { return label_states(t) + labels; }
  // States from which the end can be reached, and which the beginning reaches.
  int64_t first(int64_t t) const { return std::max<int64_t>(0, labels - (steps - t)); }
  int64_t last(int64_t t) const { return std::min(labels, t + 1); }
};

// sum * emitted; what falls out of the range of double is noticed.
MX_INLINE double emit_one(double sum, double emitted, int64_t& lost) {
  const double made = sum * emitted;
  lost |= (sum > 0) & (emitted > 0) & (made < kTiny);
  return made;
}

// One step forward for labels (blanks) [begin, end).
MX_CLONES(void, step_labels, (double* to, const double* label, const double* blank, const double* advance,
                              const double* emitted, int64_t begin, int64_t end, int64_t& lost),
          (to, label, blank, advance, emitted, begin, end, lost)) {
  int64_t any = 0;
  if (begin == 0 && end > 0) to[0] = emit_one(label[0] + blank[0], emitted[0], any);
  for (int64_t u = std::max<int64_t>(begin, 1); u < end; ++u)
    to[u] = emit_one(label[u] + blank[u] + advance[u] * label[u - 1], emitted[u], any);
  lost |= any;
}

MX_CLONES(void, step_blanks, (double* to, const double* label, const double* blank, double emitted, int64_t begin,
                              int64_t end, int64_t& lost), (to, label, blank, emitted, begin, end, lost)) {
  int64_t any = 0;
  if (begin == 0 && end > 0) to[0] = emit_one(blank[0], emitted, any);
  for (int64_t u = std::max<int64_t>(begin, 1); u < end; ++u)
    to[u] = emit_one(blank[u] + label[u - 1], emitted, any);
  lost |= any;
}

MX_CLONES(void, emit_back, (double* to, const double* x, const double* emitted, int64_t stride, int64_t n,
                            int64_t& lost), (to, x, emitted, stride, n, lost)) {
  int64_t any = 0;
  if (stride == 0) {
    for (int64_t u = 0; u < n; ++u) to[u] = emit_one(x[u], emitted[0], any);
  } else {
    for (int64_t u = 0; u < n; ++u) to[u] = emit_one(x[u], emitted[u], any);
  }
  lost |= any;
}

MX_CLONES(double, total_of, (const double* x, int64_t n), (x, n)) {
  constexpr int64_t kLanes = 8;
  double part[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int64_t k = 0; k < kLanes; ++k) part[k] += x[i + k];
  for (; i < n; ++i) part[i % kLanes] += x[i];
  return ((part[0] + part[4]) + (part[1] + part[5])) + ((part[2] + part[6]) + (part[3] + part[7]));
}

MX_CLONES(void, scale, (double* x, int64_t n, double factor), (x, n, factor)) {
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}

// The forward variables: the logarithm of the label's probability, NaN when the log domain is needed.
double run_forward(const Path& p) {
  double log_total = 0;
  int64_t lost = 0;
  std::fill_n(p.forward, p.steps * (2 * p.labels + 1), 0.0);
  for (int64_t t = 0; t < p.steps; ++t) {
    double *label = p.label_states(t), *blank = p.blank_states(t);
    const double* emitted = p.at(t);
    const int64_t begin = p.first(t), end = p.last(t);
    if (t == 0) {
      if (end > begin) label[0] = emitted[0];
      if (p.labels < p.steps) blank[0] = emitted[p.labels];
    } else {
      const double *label_before = p.label_states(t - 1), *blank_before = p.blank_states(t - 1);
      step_labels(label, label_before, blank_before, p.advance, emitted, begin, end, lost);
      step_blanks(blank, label_before, blank_before, emitted[p.labels], begin, end + 1, lost);
    }
    const double total = total_of(label, 2 * p.labels + 1);
    if (!(total > 0) || !std::isfinite(total)) return lost != 0 ? NAN : total == 0 ? -kInfinity : kInfinity;
    scale(label, 2 * p.labels + 1, 1 / total);
    log_total += std::log(total);
  }
  const double ends = p.blank_states(p.steps - 1)[p.labels] +
                      (p.labels > 0 ? p.label_states(p.steps - 1)[p.labels - 1] : 0.0);
  log_total += std::log(ends);
  return lost != 0 && !(log_total > kSafe) ? NAN : log_total;
}

// The backward variables of step t from those of t + 1, times what was emitted there.
MX_CLONES(void, step_back, (const double* z_label, const double* z_blank, const double* advance, int64_t labels,
                            double* label, double* blank), (z_label, z_blank, advance, labels, label, blank)) {
  for (int64_t u = 0; u + 1 < labels; ++u) label[u] = z_label[u] + z_blank[u + 1] + advance[u + 1] * z_label[u + 1];
  if (labels > 0) label[labels - 1] = z_label[labels - 1] + z_blank[labels];
  for (int64_t u = 0; u < labels; ++u) blank[u] = z_blank[u] + z_label[u];
  blank[labels] = z_blank[labels];
}

MX_CLONES(void, multiply, (double* x, const double* factors, int64_t n), (x, factors, n)) {
  for (int64_t i = 0; i < n; ++i) x[i] *= factors[i];
}

// Writes the shares of the states of every step over the forward variables.  False: the log domain is needed.
bool run_backward(const Path& p, double log_total) {
  const int64_t n = p.labels + 1, states = 2 * p.labels + 1;
  double *label = p.row, *blank = p.row + p.labels, *z_label = p.row + 2 * n, *z_blank = p.row + 3 * n;
  std::fill_n(label, 4 * n, 0.0);
  blank[p.labels] = 1;
  if (p.labels > 0) label[p.labels - 1] = 1;
  int64_t lost = 0;
  for (int64_t t = p.steps - 1; t >= 0; --t) {
    if (t + 1 < p.steps) {
      const int64_t reached = p.last(t + 1);
      emit_back(z_label, label, p.at(t + 1), 1, reached, lost);
      emit_back(z_blank, blank, p.at(t + 1) + p.labels, 0, reached + 1, lost);
      std::fill(z_label + reached, z_label + p.labels, 0.0);
      std::fill(z_blank + std::min(reached, p.labels) + 1, z_blank + n, 0.0);
      step_back(z_label, z_blank, p.advance, p.labels, label, blank);
      scale(label, states, 1 / total_of(label, states));
    }
    double* shares = p.label_states(t);
    multiply(shares, label, states);
    const double total = total_of(shares, states);
    if (!(total > kTiny) || !std::isfinite(total)) return false;
    scale(shares, states, 1 / total);
  }
  return lost == 0 || log_total > kSafe;
}

double log_add(double a, double b) {
  const double high = a < b ? b : a, low = a < b ? a : b;
  if (!(high > -kInfinity)) return a + b;  // nothing, or no number
  return high + std::log1p(std::exp(low - high));
}

// The same with logarithms throughout; `emitted` holds logarithms.
double run_logarithms(const Path& p, bool shares_wanted) {
  const int64_t states = 2 * p.labels + 1;
  std::fill_n(p.forward, p.steps * states, -kInfinity);
  for (int64_t t = 0; t < p.steps; ++t) {
    double *label = p.label_states(t), *blank = p.blank_states(t);
    const double* emitted = p.at(t);
    if (t == 0) {
      if (p.labels > 0) label[0] = emitted[0];
      blank[0] = emitted[p.labels];
      continue;
    }
    const double *was_label = p.label_states(t - 1), *was_blank = p.blank_states(t - 1);
    for (int64_t u = 0; u <= p.labels; ++u) {
      blank[u] = (u > 0 ? log_add(was_blank[u], was_label[u - 1]) : was_blank[u]) + emitted[p.labels];
      if (u == p.labels) continue;
      double sum = log_add(was_label[u], was_blank[u]);
      if (u > 0 && p.advance[u] > 0) sum = log_add(sum, was_label[u - 1]);
      label[u] = sum + emitted[u];
    }
  }
  const double total = log_add(p.blank_states(p.steps - 1)[p.labels],
                               p.labels > 0 ? p.label_states(p.steps - 1)[p.labels - 1] : -kInfinity);
  if (!shares_wanted || !std::isfinite(total)) return total;
  double *label = p.row, *blank = p.row + p.labels + 1;
  std::fill_n(label, 2 * p.labels + 2, -kInfinity);
  blank[p.labels] = 0;
  if (p.labels > 0) label[p.labels - 1] = 0;
  for (int64_t t = p.steps - 1; t >= 0; --t) {
    if (t + 1 < p.steps) {
      const double* emitted = p.at(t + 1);
      for (int64_t u = 0; u <= p.labels; ++u) {
        // In place: what lies ahead has not been written yet, and nothing reads what lies after.
        const double stay = blank[u] + emitted[p.labels];
        if (u < p.labels) {
          double sum = log_add(label[u] + emitted[u], blank[u + 1] + emitted[p.labels]);
          if (u + 1 < p.labels && p.advance[u + 1] > 0) sum = log_add(sum, label[u + 1] + emitted[u + 1]);
          blank[u] = log_add(stay, label[u] + emitted[u]);
          label[u] = sum;
        } else {
          blank[u] = stay;
        }
      }
    }
    double *shares = p.label_states(t), *blank_shares = p.blank_states(t);
    for (int64_t u = 0; u <= p.labels; ++u) {
      if (u < p.labels) shares[u] = std::exp(shares[u] + label[u] - total);
      blank_shares[u] = std::exp(blank_shares[u] + blank[u] - total);
    }
  }
  return total;
}

class CtcPlan final : public TypedPlan<CtcPlan> {
 public:
  CtcPlan(std::vector<Spec> inputs, std::vector<Spec> outputs, const CtcOptions& options)
      : TypedPlan(inputs, outputs, inputs[0].dtype, inputs[0].size()),
        o_(options),
        steps_(inputs[0].shape[0]),
        batch_(inputs[0].shape[1]),
        classes_(inputs[0].shape[2]),
        most_(inputs[1].shape[1]),
        table_(loops()) {
    labels_ = add_scratch<int64_t>(batch_ * (most_ + 2));
    memory_ = add_thread_scratch(power_bytes() + static_cast<size_t>(doubles(most_, steps_) + 2 * steps_) * sizeof(double));
  }

  template <class T>
  void compute(const Call& call) const {
    Result<T> losses(*this, call, 0), slopes(*this, call, 1);
    auto* classes = call.scratch<int64_t>(labels_);
    int64_t *counts = classes + batch_ * most_, *lengths = counts + batch_;
    for (int64_t n = 0; n < batch_; ++n) {  // nothing is written if one is wrong
      counts[n] = labels(call, n, classes + n * most_);
      lengths[n] = length(call, o_.data_lengths, "data_lengths", n, 1, steps_, steps_);
    }
    const T* data = read<T>(call, 0);
    if (inputs_[0].size() == 0) {
      if (losses.data() != nullptr) std::fill_n(losses.data(), outputs_[0].size(), T(0));
    } else {
      parallel_for(batch_, 1, [&](int64_t begin, int64_t end, int thread) {
        for (int64_t n = begin; n < end; ++n) {
          const double loss = sequence(data, n, classes + n * most_, counts[n], lengths[n], slopes.data(),
                                       memory_.of(call, thread));
          if (losses.data() != nullptr) losses.data()[n] = static_cast<T>(loss);
        }
      });
    }
    losses.deliver();
    slopes.deliver();
  }

 private:
  // Of the variables of a sequence.
  static int64_t doubles(int64_t count, int64_t length) {
    return length * (count + 1) + length * (2 * count + 1) + 5 * (count + 1);
  }
  size_t power_bytes() const { return aligned(static_cast<size_t>(classes_) * sizeof(double)); }
  int64_t blank() const { return o_.blank_first ? 0 : classes_ - 1; }

  // Lengths in [low, high], or `otherwise` without that input.
  int64_t length(const Call& call, std::optional<uint32_t> input, const char* name, int64_t n, int64_t low,
                 int64_t high, int64_t otherwise) const {
    if (!input) return otherwise;
    const Spec& spec = inputs_[*input];
    int64_t value;
    table_.load[spec.dtype][I64](&value, call.input(*input) + static_cast<size_t>(n) * item_size(spec.dtype), 1);
    if (value < low || value > high)
      throw Error(MX_ERROR_INDEX, std::string("[CTCLoss] ") + name + ": expected " + std::to_string(low) + " to " +
                                      std::to_string(high) + ", got " + std::to_string(value));
    return value;
  }

  // Checked labels of sequence n; returns how many.
  int64_t labels(const Call& call, int64_t n, int64_t* classes) const {
    const Spec& spec = inputs_[1];
    table_.load[spec.dtype][I64](classes, call.input(1) + static_cast<size_t>(n * most_) * item_size(spec.dtype),
                                 static_cast<size_t>(most_));
    int64_t count = std::find(classes, classes + most_, o_.blank_first ? 0 : -1) - classes;
    count = length(call, o_.label_lengths, "label_lengths", n, 0, most_, count);
    const int64_t low = o_.blank_first && !o_.label_lengths ? 1 : 0, high = classes_ - 1;  // the blank, too
    for (int64_t u = 0; u < count; ++u)
      if (classes[u] < low || classes[u] > high)
        throw Error(MX_ERROR_INDEX, "[CTCLoss] label: expected " + std::to_string(low) + " to " +
                                        std::to_string(high) + ", got " + std::to_string(classes[u]));
    return count;
  }

  template <class T>
  double sequence(const T* data, int64_t n, const int64_t* classes, int64_t count, int64_t length, T* slopes,
                  char* memory) const {
    const int64_t columns = count + 1;
    auto* powers = reinterpret_cast<T*>(memory);
    auto* numbers = reinterpret_cast<double*>(memory + power_bytes());
    double* advance = numbers + 4 * columns;
    double *tops = numbers + doubles(count, length), *sums = tops + length;
    Path path{length, count, classes, advance, numbers + 5 * columns, numbers + 5 * columns + length * columns, numbers};
    for (int64_t u = 0; u < count; ++u)
      advance[u] = u > 0 && classes[u] != classes[u - 1] && classes[u] != blank() ? 1.0 : 0.0;
    bool lost = false;
    for (int64_t t = 0; t < length; ++t) {
      const T* x = data + (t * batch_ + n) * classes_;
      T* to = slopes != nullptr ? slopes + (t * batch_ + n) * classes_ : powers;
      softmax(x, to, tops[t], sums[t], slopes != nullptr);
      lost |= emit(x, path, t, tops[t], sums[t]);
    }
    double log_total = lost ? NAN : run_forward(path);
    if (std::isfinite(log_total) && slopes != nullptr && !run_backward(path, log_total)) log_total = NAN;
    if (std::isnan(log_total)) {
      for (int64_t t = 0; t < length; ++t) {
        const T* x = data + (t * batch_ + n) * classes_;
        double* emitted = path.emitted + t * columns;
        const double shift = tops[t] + std::log(sums[t]);
        for (int64_t u = 0; u < count; ++u) emitted[u] = static_cast<double>(x[classes[u]]) - shift;
        emitted[count] = static_cast<double>(x[blank()]) - shift;
      }
      log_total = run_logarithms(path, slopes != nullptr);
    }
    if (slopes != nullptr) subtract(path, n, std::isfinite(log_total), slopes);
    return std::isfinite(log_total) ? -log_total : 0.0;
  }

  // exp(x - top) over its sum, or without that division.
  template <class T>
  void softmax(const T* x, T* to, double& top, double& sum, bool divided) const {
    constexpr Compute code = ComputeOf<T>::code;
    const auto n = static_cast<size_t>(classes_);
    T high = x[0], total = T(0);
    table_.fold_row[code][kMax](&high, x, n);
    table_.op[code][MX_OP_SUB][2](to, x, &high, nullptr, n);
    table_.op[code][MX_OP_EXP][0](to, to, nullptr, nullptr, n);
    table_.fold_row[code][kSum](&total, to, n);
    top = static_cast<double>(high);
    sum = static_cast<double>(total);
    const T factor = T(1) / total;
    if (divided) table_.op[code][MX_OP_MUL][2](to, to, &factor, nullptr, n);
  }

  // Probabilities of the path's classes; true when one is too small for double.
  template <class T>
  bool emit(const T* x, const Path& p, int64_t t, double top, double sum) const {
    double* emitted = p.emitted + t * (p.labels + 1);
    for (int64_t u = 0; u < p.labels; ++u) emitted[u] = static_cast<double>(x[p.classes[u]]) - top;
    emitted[p.labels] = static_cast<double>(x[blank()]) - top;
    int64_t small = 0;
    for (int64_t u = 0; u <= p.labels; ++u) small |= (emitted[u] < kSafe) & (emitted[u] > -kInfinity);
    const auto n = static_cast<size_t>(p.labels + 1);
    table_.op[F64][MX_OP_EXP][0](emitted, emitted, nullptr, nullptr, n);
    scale(emitted, p.labels + 1, 1 / sum);
    return small != 0;
  }

  // Probabilities less the shares of the states; 0 after the end, and for what no path can read.
  template <class T>
  void subtract(const Path& p, int64_t n, bool possible, T* slopes) const {
    for (int64_t t = 0; t < steps_; ++t) {
      T* slope = slopes + (t * batch_ + n) * classes_;
      if (!possible || t >= p.steps) {
        std::fill_n(slope, classes_, T(0));
        continue;
      }
      const double *label = p.label_states(t), *blanks = p.blank_states(t);
      double sum = 0;
      for (int64_t u = 0; u <= p.labels; ++u) sum += blanks[u];
      slope[blank()] -= static_cast<T>(sum);
      for (int64_t u = 0; u < p.labels; ++u) slope[p.classes[u]] -= static_cast<T>(label[u]);
    }
  }

  const CtcOptions o_;
  const int64_t steps_, batch_, classes_, most_;
  const LoopTable& table_;
  Section labels_;    // classes, counts, lengths
  PerThread memory_;
};

}  // namespace

PlanPtr make_ctc_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const CtcOptions& o) {
  fits(inputs.size() >= 2 && outputs.size() == 2 && inputs[0].shape.size() == 3 && inputs[1].shape.size() == 2,
       "CTCLoss");
  const Shape& data = inputs[0].shape;
  fits(inputs[1].shape[0] == data[1] && outputs[0].size() == data[1] && outputs[1].shape == data, "CTCLoss");
  for (const auto& lengths : {o.data_lengths, o.label_lengths})
    fits(!lengths || (*lengths < inputs.size() && inputs[*lengths].size() == data[1]), "CTCLoss");
  return std::make_unique<CtcPlan>(std::move(inputs), std::move(outputs), o);
}

}  // namespace mx::cpu
