// SPDX-License-Identifier: Apache-2.0
//
// Written row by row, in the order of memory: what each axis puts around its middle is looked up.
#include "indexing/pad.hpp"

#include <algorithm>
#include <cstring>

#include "elementwise/broadcast.hpp"
#include "simd/loops.hpp"
#include "indexing/strided_copy.hpp"
#include "common/parallel.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kPieceBytes = 128 << 10;  // what a thread takes at a time
constexpr int64_t kNowhere = -1;

// An axis and what is put around it.
struct Axis {
  int64_t extent, stride;  // of the input
  int64_t before, padded;  // elements in front of it, and in all
  bool plain;      // nothing is put around
};

// Which element of an axis the padded one shows at `index`.
inline int64_t place(const Axis& axis, int64_t index, PadMode mode) {
  const int64_t i = index - axis.before, last = axis.extent - 1;
  if (i >= 0 && i <= last) return i;
  switch (mode) {
    case PadMode::kConstant:
      return kNowhere;
    case PadMode::kEdge:
      return i < 0 ? 0 : last;
    default:
      return i < 0 ? -i : 2 * last - i;
  }
}

// Throws where an edge or a reflection has no elements to show.
void check_reach(int64_t extent, int64_t before, int64_t behind, PadMode mode) {
  if (mode == PadMode::kConstant || (mode == PadMode::kEdge && extent > 0)) return;
  const int64_t reach = std::max<int64_t>(extent - 1, 0);
  for (const int64_t beyond : {before, behind})
    if (beyond > reach)
      throw Error(MX_ERROR_SHAPE, "[Pad] an axis of extent " + std::to_string(extent) + " has nothing " +
                                      std::to_string(beyond) + " elements beyond its end");
}

// A short row: calls cost as much as their bytes.
template <class T>
inline void copy_row(T* to, const T* from, int64_t n) {
  constexpr int64_t kBlock = 64 / static_cast<int64_t>(sizeof(T));
  if (n < kBlock) {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i];
    return;
  }
  for (int64_t i = 0; i + kBlock <= n; i += kBlock) __builtin_memcpy(to + i, from + i, 64);
  __builtin_memcpy(to + n - kBlock, from + n - kBlock, 64);
}

class PadPlan final : public Plan {
 public:
  PadPlan(std::vector<Spec> inputs, std::vector<Spec> outputs, const Shape& before, const Shape& behind, PadMode mode)
      : Plan(std::move(inputs), std::move(outputs), 1), mode_(mode) {
    const Shape& shape = inputs_[0].shape;
    int64_t stride = 1;
    for (size_t axis = shape.size(); axis-- > 0; stride *= shape[axis]) {
      check_reach(shape[axis], before[axis], behind[axis], mode);
      // Outer axes that nothing is put around are one.
      const bool plain = before[axis] == 0 && behind[axis] == 0;
      if (plain && axes_.size() > 1 && axes_.back().plain) {
        axes_.back().extent *= shape[axis];
        axes_.back().padded *= shape[axis];
      } else {
        axes_.push_back({shape[axis], stride, before[axis], before[axis] + shape[axis] + behind[axis], plain});
      }
    }
    left_ = before.back();
    middle_ = shape.back();
    row_ = axes_[0].padded;
  }

 protected:
  void execute(const Call& call) const override {
    const Spec& spec = outputs_[0];
    if (!call.wanted(0) || spec.bytes() == 0) return;
    char* out = call.target(0);
    switch (item_size(spec.dtype)) {
      case 1:
        fill_rows<uint8_t>(call, out);
        break;
      case 2:
        fill_rows<uint16_t>(call, out);
        break;
      case 4:
        fill_rows<uint32_t>(call, out);
        break;
      default:
        fill_rows<uint64_t>(call, out);
    }
  }

  bool stages(size_t, const uint8_t* req) const override { return req[0] == MX_REQ_ADD; }

 private:
  template <class T>
  void fill_rows(const Call& call, char* out) const {
    T constant;
    const double number = call.scalar(0);
    loops().store[F64][outputs_[0].dtype](&constant, &number, 1);
    const auto* in = reinterpret_cast<const T*>(call.input(0));
    auto* to = reinterpret_cast<T*>(out);
    const int64_t bytes = row_ * static_cast<int64_t>(sizeof(T));
    parallel_for(outputs_[0].size() / row_, std::max<int64_t>(1, kPieceBytes / bytes),
             [&](int64_t begin, int64_t end) {
               for (int64_t r = begin; r < end; ++r) {
                 const int64_t from = source(r);
                 if (from == kNowhere) {
                   std::fill_n(to + r * row_, row_, constant);
                 } else {
                   pad_row(to + r * row_, in + from, constant);
                 }
               }
             });
  }

  // The first element of the row of the input that a row of the output shows.
  int64_t source(int64_t row) const {
    int64_t from = 0;
    for (size_t k = 1; k < axes_.size(); ++k) {
      const Axis& axis = axes_[k];
      const int64_t at = place(axis, row % axis.padded, mode_);
      if (at == kNowhere) return kNowhere;
      from += at * axis.stride;
      row /= axis.padded;
    }
    return from;
  }

  template <class T>
  void pad_row(T* to, const T* from, T constant) const {
    const int64_t end = left_ + middle_;
    copy_row(to + left_, from, middle_);
    if (mode_ == PadMode::kReflect) {
      for (int64_t i = 0; i < left_; ++i) to[i] = from[left_ - i];
      for (int64_t i = end; i < row_; ++i) to[i] = from[2 * (middle_ - 1) - (i - left_)];
    } else {
      const bool edge = mode_ == PadMode::kEdge && middle_ > 0;
      std::fill_n(to, left_, edge ? from[0] : constant);
      std::fill_n(to + end, row_ - end, edge ? from[middle_ - 1] : constant);
    }
  }

  const PadMode mode_;
  std::vector<Axis> axes_;  // innermost first
  int64_t left_, middle_, row_;
};

}  // namespace

PlanPtr make_pad_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const Shape& before, const Shape& behind,
                      PadMode mode) {
  bool fits = inputs.size() == 1 && outputs.size() == 1 && !inputs[0].shape.empty() &&
              inputs[0].dtype == outputs[0].dtype && before.size() == inputs[0].shape.size() &&
              behind.size() == before.size() && outputs[0].shape.size() == before.size();
  for (size_t i = 0; fits && i < before.size(); ++i)
    fits = before[i] >= 0 && behind[i] >= 0 && outputs[0].shape[i] == before[i] + inputs[0].shape[i] + behind[i];
  if (!fits) throw Error(MX_ERROR_SHAPE, "[Pad] the output does not hold the input and what is put around it");
  return std::make_unique<PadPlan>(std::move(inputs), std::move(outputs), before, behind, mode);
}

}  // namespace mx::cpu
