// SPDX-License-Identifier: Apache-2.0
#include "vision/boxes.hpp"

#include "vision/box_math.hpp"
#include "common/parallel.hpp"
#include "common/upcast.hpp"

namespace mx::cpu {
namespace {

class BoxIouPlan final : public TypedPlan<BoxIouPlan> {
 public:
  BoxIouPlan(std::vector<Spec> inputs, std::vector<Spec> outputs, bool center)
      : TypedPlan(inputs, outputs, inputs[0].dtype, outputs[0].size()),
        center_(center),
        others_(add_scratch<double>(5 * (inputs_[1].size() / 4))) {}

  template <class T>
  void compute(const Call& call) const {
    Result<T> ratios(*this, call, 0);
    if (ratios.data() == nullptr || outputs_[0].size() == 0) return;
    const int64_t n = inputs_[0].size() / 4, m = inputs_[1].size() / 4;
    const T *lhs = read<T>(call, 0), *rhs = read<T>(call, 1);
    const auto corners = [&](const T* x) { return center_ ? to_corner(box_at(x)) : box_at(x); };
    const Boxes<T> others(m, {call.scratch<T>(others_), Boxes<T>::numbers(m)});
    for (int64_t j = 0; j < m; ++j) others.set(j, corners(rhs + 4 * j));
    parallel_for(n, std::max<int64_t>(1, 8192 / m), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) overlaps(ratios.data() + i * m, corners(lhs + 4 * i), others, 0, m);
    });
    ratios.deliver();
  }

 private:
  const bool center_;
  const Section others_;
};

class BoxNmsPlan final : public TypedPlan<BoxNmsPlan> {
 public:
  BoxNmsPlan(std::vector<Spec> inputs, std::vector<Spec> outputs, const NmsOptions& options)
      : TypedPlan(inputs, outputs, inputs[0].dtype, 20 * inputs[0].size()),
        o_(options),
        rows_(inputs[0].shape[1]),
        width_(inputs[0].shape[2]) {
    const auto n = static_cast<size_t>(rows_);
    image_ = add_thread_scratch(arena_bytes({n * sizeof(int64_t), n * 5 * sizeof(double), n * sizeof(double),
                                             n * sizeof(int64_t)}) + suppress_bytes(rows_));
  }

  template <class T>
  void compute(const Call& call) const {
    Result<T> output(*this, call, 0);
    Result<int64_t> source(*this, call, 1);
    if (inputs_[0].size() == 0) return;
    const T* data = read<T>(call, 0);
    parallel_for(inputs_[0].shape[0], 1, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t i = begin; i < end; ++i) {
        const T* from = data + i * rows_ * width_;
        Arena arena = image_.arena(call, thread);
        const FixedList<int64_t> kept = survivors(from, arena);
        if (output.data() != nullptr) write(from, kept, output.data() + i * rows_ * width_);
        if (source.data() == nullptr) continue;
        int64_t* to = source.data() + i * rows_;
        std::fill(std::copy(kept.begin(), kept.end(), to), to + rows_, int64_t{-1});
      }
    });
    output.deliver();
    source.deliver();
  }

 private:
  template <class T>
  FixedList<int64_t> survivors(const T* rows, Arena& arena) const {
    auto order = arena.list<int64_t>(static_cast<size_t>(rows_));
    const auto least = static_cast<T>(o_.valid), background = static_cast<T>(o_.background);
    if (o_.topk == 0) {
      for (int64_t i = 0; i < rows_; ++i) order.push_back(i);
      return order;
    }
    for (int64_t i = 0; i < rows_; ++i)
      if (rows[i * width_ + o_.score] > least && (o_.id < 0 || rows[i * width_ + o_.id] != background))
        order.push_back(i);
    const auto better = [&](int64_t a, int64_t b) {
      const T one = rows[a * width_ + o_.score], other = rows[b * width_ + o_.score];
      return one > other || (one == other && a < b);
    };
    if (o_.topk > 0 && o_.topk < static_cast<int64_t>(order.size())) {
      std::nth_element(order.begin(), order.begin() + o_.topk, order.end(), better);
      order.shrink(static_cast<size_t>(o_.topk));
    }
    std::sort(order.begin(), order.end(), better);
    const auto n = static_cast<int64_t>(order.size());
    const Boxes<T> boxes(n, arena.take<T>(Boxes<T>::numbers(n)));
    const Span<T> classes = arena.take<T>(o_.id < 0 || o_.force ? 0 : order.size());
    for (int64_t i = 0; i < n; ++i) {
      const T* row = rows + order[static_cast<size_t>(i)] * width_;
      const Box<T> box = box_at(row + o_.coordinates);
      boxes.set(i, o_.center_in ? to_corner(box) : box);
      if (classes.size() > 0) classes[static_cast<size_t>(i)] = row[o_.id];
    }
    const Span<uint8_t> alive =
        suppress(boxes, classes.size() > 0 ? classes.data() : nullptr, o_.overlap, false, arena);
    auto kept = arena.list<int64_t>(order.size());
    for (size_t i = 0; i < order.size(); ++i)
      if (alive[i] != 0) kept.push_back(order[i]);
    return kept;
  }

  template <class T>
  void write(const T* rows, const FixedList<int64_t>& kept, T* to) const {
    T* const end = to + rows_ * width_;
    const bool changes_form = o_.center_in != o_.center_out && o_.topk != 0;
    for (int64_t i : kept) {
      std::copy_n(rows + i * width_, width_, to);
      if (changes_form) {
        const Box<T> box = box_at(to + o_.coordinates);
        const Box<T> other = o_.center_out ? to_center(box) : to_corner(box);
        const T values[4] = {other.a, other.b, other.c, other.d};
        std::copy_n(values, 4, to + o_.coordinates);
      }
      to += width_;
    }
    std::fill(to, end, T(-1));
  }

  const NmsOptions o_;
  const int64_t rows_, width_;
  PerThread image_;
};

class BoxNmsBackwardPlan final : public TypedPlan<BoxNmsBackwardPlan> {
 public:
  BoxNmsBackwardPlan(std::vector<Spec> inputs, std::vector<Spec> outputs)
      : TypedPlan(inputs, outputs, outputs[0].dtype, inputs[0].size()) {}

  template <class T>
  void compute(const Call& call) const {
    const int64_t rows = inputs_[0].shape[1], width = inputs_[0].shape[2];
    const auto* source = reinterpret_cast<const int64_t*>(call.input(1));
    for (int64_t i = 0; i < inputs_[1].size(); ++i)
      if (source[i] >= rows)
        throw Error(MX_ERROR_INDEX, "[_backward_contrib_box_nms] source: expected rows below " +
                                        std::to_string(rows) + ", got " + std::to_string(source[i]));
    Result<T> grad(*this, call, 0);
    if (grad.data() == nullptr || outputs_[0].size() == 0) return;
    const T* head = read<T>(call, 0);
    std::fill_n(grad.data(), outputs_[0].size(), T(0));
    for (int64_t i = 0; i < inputs_[1].size(); ++i)
      if (source[i] >= 0) std::copy_n(head + i * width, width, grad.data() + (i / rows * rows + source[i]) * width);
    grad.deliver();
  }
};

class BipartitePlan final : public TypedPlan<BipartitePlan> {
 public:
  BipartitePlan(std::vector<Spec> inputs, std::vector<Spec> outputs, bool ascending, double threshold, int64_t topk)
      : TypedPlan(inputs, outputs, inputs[0].dtype, 20 * inputs[0].size()),
        ascending_(ascending),
        threshold_(threshold),
        topk_(topk),
        rows_(inputs[0].shape[1]),
        columns_(inputs[0].shape[2]),
        image_(add_thread_scratch(arena_bytes({static_cast<size_t>(rows_ * columns_) * sizeof(int64_t),
                                               static_cast<size_t>(rows_), static_cast<size_t>(columns_)}))) {}

  template <class T>
  void compute(const Call& call) const {
    Result<T> by_row(*this, call, 0), by_column(*this, call, 1);
    if (by_row.data() != nullptr) std::fill_n(by_row.data(), outputs_[0].size(), T(-1));
    if (by_column.data() != nullptr) std::fill_n(by_column.data(), outputs_[1].size(), T(-1));
    if (inputs_[0].size() > 0) {
      const T* scores = read<T>(call, 0);
      parallel_for(inputs_[0].shape[0], 1, [&](int64_t begin, int64_t end, int thread) {
        for (int64_t i = begin; i < end; ++i)
          match(image_.arena(call, thread), scores + i * rows_ * columns_,
                by_row.data() == nullptr ? nullptr : by_row.data() + i * rows_,
                by_column.data() == nullptr ? nullptr : by_column.data() + i * columns_);
      });
    }
    by_row.deliver();
    by_column.deliver();
  }

 private:
  template <class T>
  void match(Arena arena, const T* scores, T* by_row, T* by_column) const {
    const auto limit = static_cast<T>(threshold_);
    auto order = arena.list<int64_t>(static_cast<size_t>(rows_ * columns_));
    for (int64_t i = 0; i < rows_ * columns_; ++i)
      if (ascending_ ? scores[i] < limit : scores[i] > limit) order.push_back(i);
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      const T one = ascending_ ? scores[b] : scores[a], other = ascending_ ? scores[a] : scores[b];
      return one > other || (one == other && a < b);
    });
    const Span<bool> row_taken = arena.filled(static_cast<size_t>(rows_), false),
                     column_taken = arena.filled(static_cast<size_t>(columns_), false);
    int64_t found = 0;
    for (int64_t i : order) {
      const int64_t row = i / columns_, column = i % columns_;
      if (row_taken[static_cast<size_t>(row)] || column_taken[static_cast<size_t>(column)]) continue;
      row_taken[static_cast<size_t>(row)] = column_taken[static_cast<size_t>(column)] = true;
      if (by_row != nullptr) by_row[row] = static_cast<T>(column);
      if (by_column != nullptr) by_column[column] = static_cast<T>(row);
      if (++found == std::min(rows_, columns_) || (topk_ > 0 && found > topk_)) return;
    }
  }

  const bool ascending_;
  const double threshold_;
  const int64_t topk_, rows_, columns_;
  const PerThread image_;
};

class BoxEncodePlan final : public TypedPlan<BoxEncodePlan> {
 public:
  BoxEncodePlan(std::vector<Spec> inputs, std::vector<Spec> outputs)
      : TypedPlan(inputs, outputs, outputs[0].dtype, 4 * outputs[0].size()) {}

  template <class T>
  void compute(const Call& call) const {
    const int64_t boxes = inputs_[2].shape[1], objects = inputs_[3].shape[1], n = inputs_[0].size();
    const T *samples = read<T>(call, 0), *matches = read<T>(call, 1), *anchors = read<T>(call, 2),
            *objects_at = read<T>(call, 3), *means = read<T>(call, 4), *stds = read<T>(call, 5);
    for (int64_t i = 0; i < n; ++i)
      if (samples[i] > T(0.5) && !(matches[i] >= 0 && matches[i] < static_cast<T>(objects)))
        throw Error(MX_ERROR_INDEX, "[_contrib_box_encode] matches: expected 0 to " + std::to_string(objects - 1) +
                                        ", got " + std::to_string(matches[i]));
    Result<T> targets(*this, call, 0), mask(*this, call, 1);
    parallel_for(n, 4096, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const bool positive = samples[i] > T(0.5);
        if (mask.data() != nullptr) std::fill_n(mask.data() + 4 * i, 4, positive ? T(1) : T(0));
        if (targets.data() == nullptr) continue;
        T* to = targets.data() + 4 * i;
        std::fill_n(to, 4, T(0));
        if (!positive) continue;
        const int64_t object = i / boxes * objects + static_cast<int64_t>(matches[i]);
        const Box<T> made = encoded(box_at(objects_at + 4 * object), box_at(anchors + 4 * i));
        const T values[4] = {made.a, made.b, made.c, made.d};
        for (int k = 0; k < 4; ++k) to[k] = (values[k] - means[k]) / stds[k];
      }
    });
    targets.deliver();
    mask.deliver();
  }
};

class BoxDecodePlan final : public TypedPlan<BoxDecodePlan> {
 public:
  BoxDecodePlan(std::vector<Spec> inputs, std::vector<Spec> outputs, bool corner)
      : TypedPlan(inputs, outputs, outputs[0].dtype, 4 * outputs[0].size(), 5), corner_(corner) {}

  template <class T>
  void compute(const Call& call) const {
    Result<T> output(*this, call, 0);
    if (output.data() == nullptr || outputs_[0].size() == 0) return;
    const T *data = read<T>(call, 0), *anchors = read<T>(call, 1);
    T factor[4];
    for (size_t k = 0; k < 4; ++k) factor[k] = static_cast<T>(call.scalar(k));
    const bool limited = call.scalar(4) > 0;
    const auto limit = static_cast<T>(call.scalar(4));
    const int64_t boxes = inputs_[1].size() / 4;
    parallel_for(inputs_[0].size() / 4, 2048, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Box<T> own = box_at(anchors + i % boxes * 4), anchor = corner_ ? to_center(own) : own;
        const T* x = data + 4 * i;
        Box<T> offset{x[0] * factor[0], x[1] * factor[1], x[2] * factor[2], x[3] * factor[3]};
        if (limited && offset.c > limit) offset.c = limit;
        if (limited && offset.d > limit) offset.d = limit;
        const Box<T> made = decoded(offset, anchor);
        const T values[4] = {made.a, made.b, made.c, made.d};
        std::copy_n(values, 4, output.data() + 4 * i);
      }
    });
    output.deliver();
  }

 private:
  const bool corner_;
};

}  // namespace

PlanPtr make_box_iou_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, bool center) {
  fits(inputs.size() == 2 && outputs.size() == 1 && inputs[0].size() % 4 == 0 && inputs[1].size() % 4 == 0 &&
           outputs[0].size() == inputs[0].size() / 4 * (inputs[1].size() / 4),
       "_contrib_box_iou");
  return std::make_unique<BoxIouPlan>(std::move(inputs), std::move(outputs), center);
}

PlanPtr make_box_nms_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const NmsOptions& o) {
  fits(inputs.size() == 1 && inputs[0].shape.size() == 3 && outputs.size() == 2 &&
           outputs[0].size() == inputs[0].size() && outputs[1].dtype == MX_INT64 &&
           outputs[1].size() == inputs[0].shape[0] * inputs[0].shape[1],
       "_contrib_box_nms");
  const int64_t width = inputs[0].shape[2];
  fits(o.coordinates >= 0 && o.coordinates + 4 <= width && o.score >= 0 && o.score < width && o.id < width,
       "_contrib_box_nms");
  return std::make_unique<BoxNmsPlan>(std::move(inputs), std::move(outputs), o);
}

PlanPtr make_box_nms_backward_plan(std::vector<Spec> inputs, std::vector<Spec> outputs) {
  fits(inputs.size() >= 2 && inputs[0].shape.size() == 3 && outputs.size() == 1 && inputs[1].dtype == MX_INT64 &&
           outputs[0].size() == inputs[0].size() &&
           inputs[1].size() == inputs[0].shape[0] * inputs[0].shape[1],
       "_backward_contrib_box_nms");
  return std::make_unique<BoxNmsBackwardPlan>(std::move(inputs), std::move(outputs));
}

PlanPtr make_bipartite_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, bool ascending, double threshold,
                            int64_t topk) {
  fits(inputs.size() == 1 && inputs[0].shape.size() == 3 && outputs.size() == 2 &&
           outputs[0].size() == inputs[0].shape[0] * inputs[0].shape[1] &&
           outputs[1].size() == inputs[0].shape[0] * inputs[0].shape[2],
       "_contrib_bipartite_matching");
  return std::make_unique<BipartitePlan>(std::move(inputs), std::move(outputs), ascending, threshold, topk);
}

PlanPtr make_box_encode_plan(std::vector<Spec> inputs, std::vector<Spec> outputs) {
  fits(inputs.size() == 6 && outputs.size() == 2 && inputs[2].shape.size() == 3 && inputs[3].shape.size() == 3 &&
           inputs[2].shape[2] == 4 && inputs[3].shape[2] == 4 && inputs[2].shape[0] == inputs[3].shape[0] &&
           inputs[0].size() * 4 == inputs[2].size() && inputs[1].size() == inputs[0].size() &&
           inputs[4].size() == 4 && inputs[5].size() == 4 && outputs[0].size() == inputs[2].size() &&
           outputs[1].size() == inputs[2].size(),
       "_contrib_box_encode");
  return std::make_unique<BoxEncodePlan>(std::move(inputs), std::move(outputs));
}

PlanPtr make_box_decode_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, bool corner) {
  fits(inputs.size() == 2 && outputs.size() == 1 && inputs[0].shape.size() == 3 && inputs[0].shape[2] == 4 &&
           inputs[1].size() == inputs[0].shape[1] * 4 && outputs[0].size() == inputs[0].size(),
       "_contrib_box_decode");
  return std::make_unique<BoxDecodePlan>(std::move(inputs), std::move(outputs), corner);
}

}  // namespace mx::cpu
