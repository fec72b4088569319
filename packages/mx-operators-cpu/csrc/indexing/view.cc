// SPDX-License-Identifier: Apache-2.0
#include "indexing/view.hpp"

#include <algorithm>
#include <string>

namespace mx::cpu {
namespace {

[[noreturn]] void refuse(mx_status status, const std::string& why) { throw Error(status, "[move] " + why); }

int64_t times(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) refuse(MX_ERROR_SHAPE, "an address does not fit");
  return result;
}

int64_t plus(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) refuse(MX_ERROR_SHAPE, "an address does not fit");
  return result;
}

std::string text(const Shape& shape) {
  std::string made = "(";
  for (size_t i = 0; i < shape.size(); ++i) made += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return made + (shape.size() == 1 ? ",)" : ")");
}

size_t place(const Shape& shape, int64_t axis) {
  const auto rank = static_cast<int64_t>(shape.size());
  if (axis < -rank || axis >= rank) {
    refuse(MX_ERROR_INDEX, "axis " + std::to_string(axis) + " of shape " + text(shape));
  }
  return static_cast<size_t>(axis < 0 ? axis + rank : axis);
}

Move move(const View& source, const View& target, uint32_t input = 0, uint32_t output = 0) {
  if (source.shape != target.shape) {
    refuse(MX_ERROR_SHAPE, "views differ: " + text(source.shape) + " and " + text(target.shape));
  }
  return {input, output, target.shape, source.strides, target.strides, source.offset, target.offset};
}

const Spec& at(const std::vector<Spec>& specs, size_t i) {
  if (i >= specs.size()) refuse(MX_ERROR_VALUE, "expected more tensors than " + std::to_string(specs.size()));
  return specs[i];
}

// Throws Unsupported where the types differ.
PlanPtr plan(std::vector<Spec> inputs, std::vector<Spec> outputs, std::vector<Move> moves,
             std::vector<FillValue> fill_values = {}, uint32_t n_scalars = 0) {
  for (const Move& m : moves)
    if (at(inputs, m.input).dtype != at(outputs, m.output).dtype) throw Unsupported{};
  return make_move_plan(std::move(inputs), std::move(outputs), std::move(moves), std::move(fill_values), n_scalars);
}

// The moves between a whole and pieces that lie one after the other along an axis, each with an axis of its own or
// without it.  `copy(whole's part, piece, number of the piece)` gives each.
template <class Copy>
std::vector<Move> along(const Spec& whole, const std::vector<Spec>& pieces, int64_t axis, bool without,
                        const Copy& copy) {
  const View view = View::of(whole.shape);
  const size_t i = place(whole.shape, axis);
  std::vector<Move> moves;
  int64_t start = 0;
  for (const Spec& piece : pieces) {
    if (!without && piece.shape.size() != whole.shape.size()) {
      refuse(MX_ERROR_SHAPE, text(piece.shape) + " is no piece of " + text(whole.shape));
    }
    const int64_t count = without ? 1 : piece.shape[i];
    View part = view.part(static_cast<int64_t>(i), {start, 1, count});
    if (without) part = part.without(static_cast<int64_t>(i));
    moves.push_back(copy(part, View::of(piece.shape), static_cast<uint32_t>(moves.size())));
    start = plus(start, count);
  }
  return moves;
}

}  // namespace

View View::of(Shape shape) {
  Shape strides(shape.size());
  int64_t below = 1;
  bool fits = true;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] < 0) refuse(MX_ERROR_SHAPE, "a negative extent in " + text(shape));
    strides[i] = below;
    fits = !__builtin_mul_overflow(below, shape[i], &below) && fits;
  }
  if (!fits) {
    if (std::find(shape.begin(), shape.end(), 0) == shape.end()) refuse(MX_ERROR_SHAPE, text(shape) + " does not fit");
    std::fill(strides.begin(), strides.end(), 0);  // of no elements
  }
  return {std::move(shape), std::move(strides), 0};
}

View View::permuted(const Shape& order) const {
  View made{{}, {}, offset};
  for (const int64_t axis : order) {
    const size_t from = place(shape, axis);
    made.shape.push_back(shape[from]);
    made.strides.push_back(strides[from]);
  }
  return made;
}

View View::part(int64_t axis, const Cut& cut) const {
  View made = *this;
  const size_t i = place(shape, axis);
  made.shape[i] = cut.count;
  if (cut.count != 0) made.offset = plus(offset, times(cut.start, strides[i]));
  if (cut.count > 1) made.strides[i] = times(strides[i], cut.step);  // else the step may be wider than any address
  return made;
}

View View::broadcast(const Shape& wanted) const {
  if (wanted.size() < shape.size()) refuse(MX_ERROR_SHAPE, text(shape) + " does not broadcast to " + text(wanted));
  const size_t lead = wanted.size() - shape.size();
  View made{wanted, Shape(wanted.size(), 0), offset};
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == wanted[lead + i]) {
      made.strides[lead + i] = strides[i];
    } else if (shape[i] != 1) {
      refuse(MX_ERROR_SHAPE, text(shape) + " does not broadcast to " + text(wanted));
    }
  }
  return made;
}

View View::without(int64_t axis) const {
  const auto i = static_cast<int64_t>(place(shape, axis));
  View made = *this;
  made.shape.erase(made.shape.begin() + i);
  made.strides.erase(made.strides.begin() + i);
  return made;
}

PlanPtr make_join_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, int64_t axis, bool new_axis) {
  std::vector<Move> moves = along(at(outputs, 0), inputs, axis, new_axis,
                                  [](const View& part, const View& piece, uint32_t i) { return move(piece, part, i); });
  return plan(std::move(inputs), std::move(outputs), std::move(moves));
}

PlanPtr make_split_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, int64_t axis, bool without_axis) {
  std::vector<Move> moves =
      along(at(inputs, 0), outputs, axis, without_axis,
            [](const View& part, const View& piece, uint32_t i) { return move(part, piece, 0, i); });
  return plan(std::move(inputs), std::move(outputs), std::move(moves));
}

PlanPtr make_permute_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const Shape& order) {
  const View source = View::of(at(inputs, 0).shape).permuted(order), target = View::of(at(outputs, 0).shape);
  return plan(std::move(inputs), std::move(outputs), {move(source, target)});
}

PlanPtr make_broadcast_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const Shape& shape) {
  const View target = View::of(at(outputs, 0).shape), source = View::of(shape).broadcast(target.shape);
  return plan(std::move(inputs), std::move(outputs), {move(source, target)});
}

const Spec& cut_tensor(const std::vector<Spec>& inputs, const std::vector<Spec>& outputs, CutAction action) {
  return at(action == CutAction::kTake ? inputs : outputs, 0);
}

PlanPtr make_cut_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const std::vector<Cut>& cuts,
                      CutAction action) {
  const View whole = View::of(cut_tensor(inputs, outputs, action).shape);
  View part = whole;
  for (size_t i = 0; i < cuts.size(); ++i) part = part.part(static_cast<int64_t>(i), cuts[i]);
  std::vector<Move> moves;
  std::vector<FillValue> fill_values;
  uint32_t n_scalars = 0;
  switch (action) {
    case CutAction::kTake:
      moves.push_back(move(part, View::of(at(outputs, 0).shape)));
      break;
    case CutAction::kPut:
      moves.push_back(move(View::of(at(inputs, 0).shape), part));
      fill_values.push_back({0, 0.0, std::nullopt});
      break;
    case CutAction::kAssign:
      moves.push_back(move(View::of(at(inputs, 0).shape), whole));
      moves.push_back(move(View::of(at(inputs, 1).shape), part, 1));
      break;
    case CutAction::kFill:
      moves.push_back(move(View::of(at(inputs, 0).shape), whole));
      moves.push_back(move(View{part.shape, Shape(part.shape.size(), 0), 0}, part));
      moves.back().scalar = 0;
      n_scalars = 1;
      break;
  }
  return plan(std::move(inputs), std::move(outputs), std::move(moves), std::move(fill_values), n_scalars);
}

}  // namespace mx::cpu
