// SPDX-License-Identifier: Apache-2.0
#include "vision/multibox.hpp"

#include <numeric>

#include "vision/box_math.hpp"
#include "common/parallel.hpp"
#include "common/upcast.hpp"

namespace mx::cpu {
namespace {

template <class T>
Box<T> clipped(const Box<T>& x) {
  const auto cut = [](T v) { return v < 0 ? T(0) : v > 1 ? T(1) : v; };
  return {cut(x.a), cut(x.b), cut(x.c), cut(x.d)};
}

template <class T>
void put(T* to, const Box<T>& x) {
  const T values[4] = {x.a, x.b, x.c, x.d};
  std::copy_n(values, 4, to);
}

class PriorPlan final : public TypedPlan<PriorPlan> {
 public:
  PriorPlan(std::vector<Spec> inputs, std::vector<Spec> outputs, const PriorOptions& options)
      : TypedPlan(inputs, outputs, outputs[0].dtype, outputs[0].size()), o_(options) {}

  template <class T>
  void compute(const Call& call) const {
    Result<T> output(*this, call, 0);
    if (output.data() == nullptr || outputs_[0].size() == 0) return;
    const auto anchors = static_cast<int64_t>(o_.half_x.size());
    parallel_for(o_.height, 1, [&](int64_t begin, int64_t end) {
      T* to = output.data() + begin * o_.width * anchors * 4;
      for (int64_t row = begin; row < end; ++row) {
        const double y = (static_cast<double>(row) + o_.offset_y) * o_.step_y;
        for (int64_t column = 0; column < o_.width; ++column) {
          const double x = (static_cast<double>(column) + o_.offset_x) * o_.step_x;
          for (size_t k = 0; k < o_.half_x.size(); ++k, to += 4) {
            const Box<double> made{x - o_.half_x[k], y - o_.half_y[k], x + o_.half_x[k], y + o_.half_y[k]};
            const Box<double> box = o_.clip ? clipped(made) : made;
            put(to, Box<T>{static_cast<T>(box.a), static_cast<T>(box.b), static_cast<T>(box.c), static_cast<T>(box.d)});
          }
        }
      }
    });
    output.deliver();
  }

 private:
  const PriorOptions o_;
};

// What the anchors of one image are matched with.
template <class T>
struct Matches {
  Span<int64_t> object;
  Span<T> overlap;
  Span<uint8_t> positive;
};

class TargetPlan final : public TypedPlan<TargetPlan> {
 public:
  TargetPlan(std::vector<Spec> inputs, std::vector<Spec> outputs, const TargetOptions& options)
      : TypedPlan(inputs, outputs, outputs[0].dtype,
                 inputs[1].shape[0] * inputs[0].shape[1] * (inputs[1].shape[1] + 4)),
        o_(options),
        anchors_(inputs[0].shape[1]),
        objects_(inputs[1].shape[1]),
        width_(inputs[1].shape[2]),
        classes_(inputs[2].shape[1]) {
    const auto n = static_cast<size_t>(anchors_), m = static_cast<size_t>(objects_);
    const size_t matches = arena_bytes({n * sizeof(int64_t), n * sizeof(double), n});
    const size_t matching = arena_bytes({n * 5 * sizeof(double), n * m * sizeof(double), n, m * sizeof(int64_t), m});
    const size_t mining = o_.mining_ratio > 0 ? arena_bytes({n * sizeof(int64_t), n * sizeof(double)}) : 0;
    image_ = add_thread_scratch(matches + matching + mining);
  }

  template <class T>
  void compute(const Call& call) const {
    Result<T> location(*this, call, 0), mask(*this, call, 1), target(*this, call, 2);
    const T *anchors = read<T>(call, 0), *labels = read<T>(call, 1), *predicted = read<T>(call, 2);
    const auto part = [&](const Result<T>& whole, int64_t image, int64_t each) {
      return whole.data() == nullptr ? nullptr : whole.data() + image * anchors_ * each;
    };
    parallel_for(inputs_[1].shape[0], 1, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t i = begin; i < end; ++i)
        image(image_.arena(call, thread), anchors, labels + i * objects_ * width_, predicted + i * classes_ * anchors_, part(location, i, 4),
              part(mask, i, 4), part(target, i, 1));
    });
    location.deliver();
    mask.deliver();
    target.deliver();
  }

 private:
  template <class T>
  void image(Arena arena, const T* anchors, const T* labels, const T* predicted, T* location, T* mask, T* target) const {
    if (location != nullptr) std::fill_n(location, 4 * anchors_, T(0));
    if (mask != nullptr) std::fill_n(mask, 4 * anchors_, T(0));
    if (target != nullptr) std::fill_n(target, anchors_, static_cast<T>(o_.ignored));
    int64_t count = 0;
    while (count < objects_ && labels[count * width_] != T(-1)) ++count;
    if (count == 0 || anchors_ == 0) return;
    const Matches<T> found = matched(arena, anchors, labels, count);
    if (target != nullptr) mark_negatives(arena, predicted, found, target);
    for (int64_t a = 0; a < anchors_; ++a) {
      const auto i = static_cast<size_t>(a);
      if (found.positive[i] == 0) continue;
      const T* object = labels + found.object[i] * width_;
      if (target != nullptr) target[a] = object[0] + T(1);
      if (mask != nullptr) std::fill_n(mask + 4 * a, 4, T(1));
      if (location == nullptr) continue;
      put(location + 4 * a, encoded(box_at(object + 1), box_at(anchors + 4 * a)));
      for (int k = 0; k < 4; ++k) location[4 * a + k] /= static_cast<T>(o_.variances[static_cast<size_t>(k)]);
    }
  }

  // Every object takes the best anchor that is left, best pair first; then anchors take objects.
  template <class T>
  Matches<T> matched(Arena& arena, const T* anchors, const T* labels, int64_t count) const {
    const auto n = static_cast<size_t>(anchors_), m = static_cast<size_t>(count);
    const Matches<T> found{arena.filled<int64_t>(n, 0), arena.filled(n, T(0)), arena.filled<uint8_t>(n, 0)};
    const Boxes<T> boxes(anchors_, arena.take<T>(Boxes<T>::numbers(anchors_)));
    for (int64_t a = 0; a < anchors_; ++a) boxes.set(a, box_at(anchors + 4 * a));
    const Span<T> ratio = arena.take<T>(n * m);
    for (int64_t j = 0; j < count; ++j) {
      T* row = ratio.data() + j * anchors_;
      overlaps(row, box_at(labels + j * width_ + 1), boxes, 0, anchors_);
      for (size_t a = 0; a < n; ++a)
        if (row[a] > found.overlap[a]) {
          found.overlap[a] = row[a];
          found.object[a] = j;
        }
    }
    const Span<uint8_t> taken = arena.filled<uint8_t>(n, 0), done = arena.filled<uint8_t>(m, 0);
    const Span<int64_t> best = arena.take<int64_t>(m);
    const auto seek = [&](size_t j) {
      const T* row = ratio.data() + j * n;
      int64_t at = -1;
      for (size_t a = 0; a < n; ++a)
        if (taken[a] == 0 && (at < 0 || row[a] > row[at])) at = static_cast<int64_t>(a);
      best[j] = at;
    };
    for (size_t j = 0; j < m; ++j) seek(j);
    for (size_t round = 0; round < std::min(n, m); ++round) {
      size_t pick = m;
      for (size_t j = 0; j < m; ++j) {
        if (done[j] != 0) continue;
        if (pick == m) {
          pick = j;
          continue;
        }
        const T one = ratio[j * n + static_cast<size_t>(best[j])];
        const T other = ratio[pick * n + static_cast<size_t>(best[pick])];
        if (one > other || (one == other && best[j] < best[pick])) pick = j;
      }
      const auto row = static_cast<size_t>(best[pick]);
      const T overlap = ratio[pick * n + row];
      if (overlap <= T(1e-6)) break;
      found.object[row] = static_cast<int64_t>(pick);
      found.overlap[row] = overlap;
      found.positive[row] = taken[row] = done[pick] = 1;
      if (round + 1 < std::min(n, m))
        for (size_t j = 0; j < m; ++j)
          if (done[j] == 0 && best[j] == static_cast<int64_t>(row)) seek(j);
    }
    const auto limit = static_cast<T>(o_.overlap);
    if (o_.overlap > 0)
      for (size_t a = 0; a < n; ++a) found.positive[a] |= found.overlap[a] > limit;
    return found;
  }

  template <class T>
  void mark_negatives(Arena& arena, const T* predicted, const Matches<T>& found, T* target) const {
    if (!(o_.mining_ratio > 0)) {
      for (int64_t a = 0; a < anchors_; ++a)
        if (found.positive[static_cast<size_t>(a)] == 0) target[a] = T(0);
      return;
    }
    const auto limit = static_cast<T>(o_.mining_overlap);
    auto candidates = arena.list<int64_t>(static_cast<size_t>(anchors_));
    int64_t positives = 0;
    for (int64_t a = 0; a < anchors_; ++a) {
      const auto i = static_cast<size_t>(a);
      positives += found.positive[i];
      if (found.positive[i] == 0 && found.overlap[i] < limit) candidates.push_back(a);
    }
    const double wanted = std::min(static_cast<double>(positives) * o_.mining_ratio,
                                   static_cast<double>(anchors_ - positives));
    const auto many = std::min(candidates.size(), static_cast<size_t>(wanted));
    const Span<T> background = arena.take<T>(static_cast<size_t>(anchors_));
    for (int64_t a : candidates) {
      T top = predicted[a], sum = T(0);
      for (int64_t c = 1; c < classes_; ++c) top = std::max(top, predicted[c * anchors_ + a]);
      for (int64_t c = 0; c < classes_; ++c) sum += std::exp(predicted[c * anchors_ + a] - top);
      background[static_cast<size_t>(a)] = std::exp(predicted[a] - top) / sum;
    }
    const auto earlier = [&](int64_t a, int64_t b) {  // no number comes last
      const T one = background[static_cast<size_t>(a)], other = background[static_cast<size_t>(b)];
      if (std::isnan(one) || std::isnan(other)) return !std::isnan(one) || (std::isnan(other) && a < b);
      return one < other || (one == other && a < b);
    };
    std::partial_sort(candidates.begin(), candidates.begin() + static_cast<int64_t>(many), candidates.end(), earlier);
    for (size_t i = 0; i < many; ++i) target[candidates[i]] = T(0);
  }

  const TargetOptions o_;
  const int64_t anchors_, objects_, width_, classes_;
  PerThread image_;
};

class DetectionPlan final : public TypedPlan<DetectionPlan> {
 public:
  DetectionPlan(std::vector<Spec> inputs, std::vector<Spec> outputs, const DetectionOptions& options)
      : TypedPlan(inputs, outputs, outputs[0].dtype, inputs[0].size() + 20 * outputs[0].size()),
        o_(options),
        classes_(inputs[0].shape[1]),
        anchors_(inputs[0].shape[2]) {
    const auto n = static_cast<size_t>(anchors_);
    image_ = add_thread_scratch(arena_bytes({n * sizeof(double), n * sizeof(int64_t), n * sizeof(int64_t),
                                             n * kRow * sizeof(double), n * sizeof(int64_t), n * 5 * sizeof(double),
                                             n * sizeof(double)}) + suppress_bytes(anchors_));
  }

  // class, probability, box
  template <class T>
  void compute(const Call& call) const {
    Result<T> output(*this, call, 0);
    if (output.data() == nullptr || outputs_[0].size() == 0) return;
    const T *prob = read<T>(call, 0), *offsets = read<T>(call, 1), *anchors = read<T>(call, 2);
    parallel_for(inputs_[0].shape[0], 1, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t i = begin; i < end; ++i)
        image(image_.arena(call, thread), prob + i * classes_ * anchors_, offsets + i * 4 * anchors_, anchors,
              output.data() + i * anchors_ * kRow);
    });
    output.deliver();
  }

 private:
  static constexpr int64_t kRow = 6;

  template <class T>
  void image(Arena arena, const T* prob, const T* offsets, const T* anchors, T* output) const {
    const auto n = static_cast<size_t>(anchors_);
    const Span<T> score = arena.take<T>(n);
    std::copy_n(prob + anchors_, n, score.data());
    const Span<int64_t> best = arena.filled<int64_t>(n, 0);
    for (int64_t c = 2; c < classes_; ++c) {
      const T* row = prob + c * anchors_;
      for (size_t a = 0; a < n; ++a)
        if (row[a] > score[a] || (std::isnan(row[a]) && !std::isnan(score[a]))) {
          score[a] = row[a];
          best[a] = c - 1;
        }
    }
    auto valid = arena.list<int64_t>(n);
    for (size_t a = 0; a < n; ++a)
      if (score[a] >= static_cast<T>(o_.threshold)) valid.push_back(static_cast<int64_t>(a));
    const auto count = static_cast<int64_t>(valid.size());
    const Span<T> rows = arena.take<T>(valid.size() * kRow);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t a = valid[static_cast<size_t>(i)];
      T* row = rows.data() + i * kRow;
      row[0] = static_cast<T>(best[static_cast<size_t>(a)]);
      row[1] = score[static_cast<size_t>(a)];
      T moved[4];
      for (int64_t k = 0; k < 4; ++k) moved[k] = offsets[4 * a + k] * static_cast<T>(o_.variances[static_cast<size_t>(k)]);
      const Box<T> box = decoded(box_at(moved), to_center(box_at(anchors + 4 * a)));
      put(row + 2, o_.clip ? clipped(box) : box);
    }
    std::fill_n(output, anchors_ * kRow, T(-1));
    std::copy(rows.begin(), rows.end(), output);
    if (!(o_.overlap > 0 && o_.overlap <= 1)) return;  // nothing is suppressed: the order of the anchors stays
    auto order = arena.list<int64_t>(valid.size());
    for (int64_t i = 0; i < count; ++i) order.push_back(i);
    const auto better = [&](int64_t a, int64_t b) {
      const T one = rows[static_cast<size_t>(a * kRow + 1)], other = rows[static_cast<size_t>(b * kRow + 1)];
      return one > other || (one == other && a < b);
    };
    if (o_.topk > 0 && o_.topk < count) {
      std::nth_element(order.begin(), order.begin() + o_.topk, order.end(), better);
      order.shrink(static_cast<size_t>(o_.topk));
    }
    std::sort(order.begin(), order.end(), better);
    const auto kept = static_cast<int64_t>(order.size());
    for (int64_t i = kept; i < count; ++i) output[i * kRow] = T(-1);
    const Boxes<T> boxes(kept, arena.take<T>(Boxes<T>::numbers(kept)));
    const Span<T> kinds = arena.take<T>(order.size());
    for (int64_t i = 0; i < kept; ++i) {
      const T* row = rows.data() + order[static_cast<size_t>(i)] * kRow;
      std::copy_n(row, kRow, output + i * kRow);
      boxes.set(i, box_at(row + 2));
      kinds[static_cast<size_t>(i)] = row[0];
    }
    const Span<uint8_t> alive = suppress(boxes, o_.force ? nullptr : kinds.data(), o_.overlap, true, arena);
    for (int64_t i = 0; i < kept; ++i)
      if (alive[static_cast<size_t>(i)] == 0) output[i * kRow] = T(-1);
  }

  const DetectionOptions o_;
  const int64_t classes_, anchors_;
  PerThread image_;
};

}  // namespace

PlanPtr make_multibox_prior_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const PriorOptions& o) {
  fits(outputs.size() == 1 && o.height >= 0 && o.width >= 0 && o.half_x.size() == o.half_y.size() &&
           outputs[0].size() == o.height * o.width * static_cast<int64_t>(o.half_x.size()) * 4,
       "_contrib_MultiBoxPrior");
  return std::make_unique<PriorPlan>(std::move(inputs), std::move(outputs), o);
}

PlanPtr make_multibox_target_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const TargetOptions& o) {
  fits(inputs.size() == 3 && outputs.size() == 3 && o.variances.size() == 4, "_contrib_MultiBoxTarget");
  const Shape &anchor = inputs[0].shape, &label = inputs[1].shape, &predicted = inputs[2].shape;
  fits(anchor.size() == 3 && anchor[0] == 1 && anchor[2] == 4 && label.size() == 3 && label[2] >= 5 &&
           predicted.size() == 3 && predicted[0] == label[0] && predicted[2] == anchor[1],
       "_contrib_MultiBoxTarget");
  const int64_t n = label[0] * anchor[1];
  fits(outputs[0].size() == 4 * n && outputs[1].size() == 4 * n && outputs[2].size() == n, "_contrib_MultiBoxTarget");
  fits(predicted[1] > 0 || !(o.mining_ratio > 0), "_contrib_MultiBoxTarget");
  return std::make_unique<TargetPlan>(std::move(inputs), std::move(outputs), o);
}

PlanPtr make_multibox_detection_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const DetectionOptions& o) {
  fits(inputs.size() == 3 && outputs.size() == 1 && o.variances.size() == 4, "_contrib_MultiBoxDetection");
  const Shape& prob = inputs[0].shape;
  fits(prob.size() == 3 && prob[1] >= 2 && inputs[1].size() == prob[0] * prob[2] * 4 &&
           inputs[2].size() == prob[2] * 4 && outputs[0].size() == prob[0] * prob[2] * 6,
       "_contrib_MultiBoxDetection");
  return std::make_unique<DetectionPlan>(std::move(inputs), std::move(outputs), o);
}

}  // namespace mx::cpu
