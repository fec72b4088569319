// SPDX-License-Identifier: Apache-2.0
#include "common/shape.hpp"
#include "indexing/strided_copy.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "elementwise/broadcast.hpp"
#include "simd/accumulate.hpp"
#include "common/clones.hpp"
#include "simd/loops.hpp"
#include "mx_core/expression.h"
#include "common/parallel.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kPieceBytes = 128 << 10;
constexpr int64_t kShort = 32;         // elements: rows that are walked together
constexpr size_t kStreamBytes = 24 << 20;  // inputs and outputs that no cache will hold
constexpr int64_t kStreamRow = 2048;  // bytes of a row that is worth writing past the caches, and being walked alone
constexpr int64_t kReversed = 4096;        // bytes turned round at a time
constexpr int64_t kBlock = 16;  // edge of the squares a transpose works in

// A move with as few axes as possible.  The innermost axis is the last one.  `across`, when there is
// one, is the axis along which the source is contiguous while the target is not; `rows` the axis
// before a short innermost one, walked in the same loop.
struct Copy {
  Move move;
  size_t item;
  int across = -1;
  bool rows = false;
  bool stream = false;  // past the caches
  int64_t outer = 1;  // indices of the remaining axes
  int64_t part = 1;   // elements of the split axis that a thread takes at a time

  // The axis that is split between threads.
  size_t split() const {
    const size_t last = move.sizes.size() - 1;
    return across >= 0 ? static_cast<size_t>(across) : rows ? last - 1 : last;
  }
  // Bytes that belong to one element of it.
  int64_t along() const {
    const size_t last = move.sizes.size() - 1;
    return static_cast<int64_t>(item) * (split() != last ? move.sizes[last] : 1);
  }
  int64_t parts() const { return (move.sizes[split()] + part - 1) / part; }
};

bool inside(const Move& m, const Shape& strides, int64_t offset, int64_t elements) {
  __extension__ using Wide = __int128;  // sums of products of what anybody may have given
  Wide low = offset, high = offset;
  for (size_t i = 0; i < m.sizes.size(); ++i) {
    if (m.sizes[i] == 0) return true;
    (strides[i] < 0 ? low : high) += Wide{strides[i]} * (m.sizes[i] - 1);
  }
  return low >= 0 && high < elements;
}

Copy simplify(const Move& given, size_t item) {
  Copy copy{given, item};
  Move& m = copy.move;
  m.sizes.clear();
  m.from.clear();
  m.to.clear();
  for (size_t i = 0; i < given.sizes.size(); ++i) {
    if (given.sizes[i] == 1) continue;
    if (!m.sizes.empty() && m.from.back() == given.from[i] * given.sizes[i] &&
        m.to.back() == given.to[i] * given.sizes[i]) {
      m.sizes.back() *= given.sizes[i];
      m.from.back() = given.from[i];
      m.to.back() = given.to[i];
    } else {
      m.sizes.push_back(given.sizes[i]);
      m.from.push_back(given.from[i]);
      m.to.push_back(given.to[i]);
    }
  }
  if (m.sizes.empty()) {
    m.sizes.push_back(1);
    m.from.push_back(1);
    m.to.push_back(1);
  }
  const size_t last = m.sizes.size() - 1;
  if (m.to[last] == 1 && m.from[last] != 1 && m.from[last] != 0)
    for (size_t i = 0; i < last; ++i)
      if (m.from[i] == 1 && m.sizes[i] >= 4) copy.across = static_cast<int>(i);
  const bool whole = m.to[last] == 1 && m.from[last] == 1;
  copy.rows = copy.across < 0 && last > 0 && (whole ? m.sizes[last] * static_cast<int64_t>(item) < kStreamRow : m.sizes[last] <= kShort);
  for (size_t i = 0; i < last; ++i)
    if (i != copy.split()) copy.outer *= m.sizes[i];
  copy.part = std::max<int64_t>(1, kPieceBytes / copy.along());
  if (copy.across >= 0) copy.part = (copy.part + kBlock - 1) / kBlock * kBlock;
  return copy;
}

// Every second element, of 4 bytes.
MX_CLONES(void, every_second, (uint32_t* o, const uint32_t* x, int64_t n), (o, x, n)) {
  for (int64_t i = 0; i < n; ++i) o[i] = x[2 * i];
}

template <class T>
void strided(char* out, int64_t to, const char* in, int64_t from, int64_t n) {
  auto* o = reinterpret_cast<T*>(out);
  auto* x = reinterpret_cast<const T*>(in);
  if constexpr (sizeof(T) == 4)
    if (to == 1 && from == 2) return every_second(o, x, n);
  for (int64_t i = 0; i < n; ++i) o[i * to] = x[i * from];
}

// Rows of N elements, or of n where N is 0.
template <class T, int64_t N>
void rows_of(T* out, const T* in, const Shape& to, const Shape& from, size_t axis, int64_t n, int64_t rows) {
  const int64_t to_step = to[axis + 1], from_step = from[axis + 1], size = N > 0 ? N : n;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < size; ++i) out[r * to[axis] + i * to_step] = in[r * from[axis] + i * from_step];
}

// Every element of a row, N times each.
template <class T, int64_t N>
void spread(T* out, const T* in, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < N; ++i) out[r * N + i] = in[r];
}

template <class T>
void short_rows(char* out, const char* in, const Move& m, size_t axis, int64_t rows) {
  auto* o = reinterpret_cast<T*>(out);
  auto* x = reinterpret_cast<const T*>(in);
  const int64_t n = m.sizes[axis + 1];
  const bool repeated = m.from[axis + 1] == 0 && m.to[axis + 1] == 1 && m.from[axis] == 1 && m.to[axis] == n;
  switch (n) {
    case 1:
      return rows_of<T, 1>(o, x, m.to, m.from, axis, n, rows);
    case 2:
      return repeated ? spread<T, 2>(o, x, rows) : rows_of<T, 2>(o, x, m.to, m.from, axis, n, rows);
    case 3:
      return repeated ? spread<T, 3>(o, x, rows) : rows_of<T, 3>(o, x, m.to, m.from, axis, n, rows);
    case 4:
      return repeated ? spread<T, 4>(o, x, rows) : rows_of<T, 4>(o, x, m.to, m.from, axis, n, rows);
    default:
      break;
  }
  if (m.to[axis + 1] != 1 || m.from[axis + 1] != 1) return rows_of<T, 0>(o, x, m.to, m.from, axis, n, rows);
  for (int64_t r = 0; r < rows; ++r)
    std::memmove(o + r * m.to[axis], x + r * m.from[axis], static_cast<size_t>(n) * sizeof(T));
}

// out[i * to + j] = in[i + j * from], in squares that fit the first-level cache.
// Of bytes; larger elements have loops.
void transpose(char* o, int64_t to, const char* x, int64_t from, int64_t rows, int64_t n) {
  for (int64_t j0 = 0; j0 < n; j0 += kBlock) {
    const int64_t columns = std::min(kBlock, n - j0);
    for (int64_t i0 = 0; i0 < rows; i0 += kBlock) {
      const int64_t height = std::min(kBlock, rows - i0);
      char square[kBlock][kBlock];
      for (int64_t j = 0; j < columns; ++j)
        for (int64_t i = 0; i < height; ++i) square[i][j] = x[i0 + i + (j0 + j) * from];
      for (int64_t i = 0; i < height; ++i)
        std::memcpy(o + (i0 + i) * to + j0, square[i], static_cast<size_t>(columns));
    }
  }
}

template <class Function>
void with_item(size_t item, Function&& function) {
  switch (item) {
    case 1:
      return function(uint8_t{});
    case 2:
      return function(uint16_t{});
    case 4:
      return function(uint32_t{});
    default:
      return function(uint64_t{});
  }
}

// out[i] = in[-i].
void reverse(char* out, const char* in, int64_t n, int64_t item, bool stream) {
  const auto& turn = loops().reverse[item == 1 ? 0 : item == 2 ? 1 : item == 4 ? 2 : 3];
  if (!stream) return turn(out, in, static_cast<size_t>(n));
  alignas(64) char piece[kReversed];
  for (int64_t left = n; left > 0;) {  // reads go upwards in memory
    const int64_t some = std::min(kReversed / item, left);
    left -= some;
    turn(piece, in - left * item, static_cast<size_t>(some));
    loops().stream(out + left * item, piece, static_cast<size_t>(some * item));
  }
}

// Elements [begin, end) of the axis that is split, at one index of the outer axes.
void copy_part(const Copy& copy, const char* in, char* out, int64_t begin, int64_t end) {
  const Move& m = copy.move;
  const size_t last = m.sizes.size() - 1;
  const int64_t from = m.from[last], to = m.to[last], n = end - begin;
  const auto item = static_cast<int64_t>(copy.item);
  if (copy.across >= 0) {
    const int64_t stride = m.to[static_cast<size_t>(copy.across)];
    if (copy.item > 1) {
      const LoopTable& table = loops();
      const auto transposed = copy.item == 2 ? table.transpose16 : copy.item == 4 ? table.transpose32 : table.transpose64;
      return transposed(out + begin * stride * item, stride, in + begin * item, from, n, m.sizes[last]);
    }
    return transpose(out + begin * stride, stride, in + begin, from, n, m.sizes[last]);
  }
  if (copy.rows) {
    in += begin * m.from[last - 1] * item;
    out += begin * m.to[last - 1] * item;
    with_item(copy.item, [&](auto type) { short_rows<decltype(type)>(out, in, m, last - 1, n); });
    return;
  }
  in += begin * from * item;
  out += begin * to * item;
  const bool stream = copy.stream && n * item >= kStreamRow;
  if (to == 1 && from == 1) {
    if (in == out) return;
    const auto bytes = static_cast<size_t>(n * item);
    stream ? loops().stream(out, in, bytes) : static_cast<void>(std::memmove(out, in, bytes));
  } else if (to == 1 && from == -1) {
    reverse(out, in, n, item, stream);
  } else if (to == 1 && from == 0) {
    fill(out, in, n, copy.item);
  } else {
    with_item(copy.item, [&](auto type) { strided<decltype(type)>(out, to, in, from, n); });
  }
}

class MovePlan final : public Plan {
 public:
  MovePlan(std::vector<Spec> inputs, std::vector<Spec> outputs, const std::vector<Move>& moves,
           std::vector<FillValue> fill_values, uint32_t n_scalars);

 protected:
  void execute(const Call& call) const override;
  bool stages(size_t o, const uint8_t* req) const override { return req[o] == MX_REQ_ADD; }

 private:
  void fill_output(const Call& call, const FillValue& fill_value, char* out) const;
  const char* source(const Call& call, const Move& m, char* element) const;
  void walk(const Call& call, const Copy& copy, char* out, int64_t begin, int64_t end) const;
  void run(const Call& call, const Copy& copy, char* out) const;
  int64_t shared_axis(uint32_t output) const;
  void run_together(const Call& call, uint32_t output, int64_t size, char* out) const;

  std::vector<Copy> copies_;
  const std::vector<FillValue> fill_values_;
  const LoopTable& table_;
};

MovePlan::MovePlan(std::vector<Spec> inputs, std::vector<Spec> outputs,
                   const std::vector<Move>& moves, std::vector<FillValue> fill_values,
                   uint32_t n_scalars)
    : Plan(std::move(inputs), std::move(outputs), n_scalars),
      fill_values_(std::move(fill_values)),
      table_(loops()) {
  for (const FillValue& b : fill_values_)
    if (b.output >= outputs_.size() || (b.scalar && *b.scalar >= n_scalars))
      throw Error(MX_ERROR_VALUE, "[move] a fill value names what does not exist");
  for (const Move& m : moves) {
    if (m.input >= inputs_.size() || m.output >= outputs_.size() ||
        m.sizes.size() != m.from.size() || m.sizes.size() != m.to.size() ||
        inputs_[m.input].dtype != outputs_[m.output].dtype ||
        !inside(m, m.from, m.from_offset, inputs_[m.input].size()) ||
        !inside(m, m.to, m.to_offset, outputs_[m.output].size()))
      throw Error(MX_ERROR_SHAPE, "[move] a copy from input " + std::to_string(m.input) +
                                      " to output " + std::to_string(m.output) +
                                      " leaves its arrays");
    if (m.scalar && *m.scalar >= n_scalars) throw Error(MX_ERROR_VALUE, "[move] a copy names a number that is not there");
    if (product(m.sizes) == 0) continue;
    copies_.push_back(simplify(m, item_size(inputs_[m.input].dtype)));
    copies_.back().stream = inputs_[m.input].bytes() + outputs_[m.output].bytes() > kStreamBytes;
  }
}

void MovePlan::fill_output(const Call& call, const FillValue& fill_value, char* out) const {
  const Spec& spec = outputs_[fill_value.output];
  const double number = fill_value.scalar ? call.scalar(*fill_value.scalar) : fill_value.number;
  if (number == 0.0 && !std::signbit(number)) {
    if (spec.bytes() > 0) std::memset(out, 0, spec.bytes());
    return;
  }
  alignas(8) char element[8];
  table_.store[F64][spec.dtype](element, &number, 1);
  fill(out, element, spec.size(), item_size(spec.dtype));
}

// Where a move reads: its input, or its number, which goes to `element`, of 8 aligned bytes.
const char* MovePlan::source(const Call& call, const Move& m, char* element) const {
  if (!m.scalar) return call.input(m.input);
  const double number = call.scalar(*m.scalar);
  table_.store[F64][outputs_[m.output].dtype](element, &number, 1);
  return element;
}

// Units [begin, end) of a copy: parts of the axis that is split, at every index of the outer axes.
void MovePlan::walk(const Call& call, const Copy& copy, char* out, int64_t begin, int64_t end) const {
  const Move& m = copy.move;
  const size_t axis = copy.split();
  const auto item = static_cast<int64_t>(copy.item);
  const int64_t parts = copy.parts();
  alignas(8) char element[8];
  const char* in = source(call, m, element);
  for (int64_t unit = begin; unit < end; ++unit) {
    int64_t from = m.from_offset, to = m.to_offset, index = unit / parts;
    for (size_t i = m.sizes.size() - 1; i-- > 0;) {
      if (i == axis) continue;
      from += index % m.sizes[i] * m.from[i];
      to += index % m.sizes[i] * m.to[i];
      index /= m.sizes[i];
    }
    const int64_t first = unit % parts * copy.part;
    copy_part(copy, in + from * item, out + to * item, first,
              std::min(m.sizes[axis], first + copy.part));
  }
}

void MovePlan::run(const Call& call, const Copy& copy, char* out) const {
  const int64_t piece = std::min(copy.part, copy.move.sizes[copy.split()]) * copy.along();
  parallel_for(copy.outer * copy.parts(), std::max<int64_t>(1, kPieceBytes / piece),
           [&](int64_t begin, int64_t end) { walk(call, copy, out, begin, end); });
}

// The outermost axis along which all copies to an output go together; 0: there is none.  What they
// write at one index of it, they write while it is in a cache.
int64_t MovePlan::shared_axis(uint32_t output) const {
  int64_t size = 0, stride = 0, n = 0;
  for (const Copy& copy : copies_) {
    const Move& m = copy.move;
    if (m.output != output) continue;
    if (m.sizes.size() < 2 || copy.across >= 0) return 0;
    if (n++ == 0) {
      size = m.sizes[0];
      stride = m.to[0];
    }
    if (m.sizes[0] != size || m.to[0] != stride) return 0;
  }
  return n > 1 ? size : 0;
}

void MovePlan::run_together(const Call& call, uint32_t output, int64_t size, char* out) const {
  const size_t bytes = outputs_[output].bytes();
  const int64_t each = static_cast<int64_t>(bytes) / size;
  parallel_for(size, std::max<int64_t>(1, kPieceBytes / std::max<int64_t>(each, 1)),
           [&](int64_t begin, int64_t end) {
             for (int64_t i = begin; i < end; ++i)
               for (const Copy& copy : copies_) {
                 const Move& m = copy.move;
                 if (m.output != output) continue;
                 const auto item = static_cast<int64_t>(copy.item);
                 const int64_t units = copy.outer / size * copy.parts();
                 if (copy.split() != 0) {
                   walk(call, copy, out, i * units, (i + 1) * units);
                 } else {
                   alignas(8) char element[8];
                   copy_part(copy, source(call, m, element) + m.from_offset * item, out + m.to_offset * item, i, i + 1);
                 }
               }
           });
}

void MovePlan::execute(const Call& call) const {
  for (uint32_t o = 0; o < outputs_.size(); ++o) {
    const Spec& spec = outputs_[o];
    if (!call.wanted(o) || spec.bytes() == 0) continue;
    char* out = call.target(o);
    for (const FillValue& fill_value : fill_values_)
      if (fill_value.output == o) fill_output(call, fill_value, out);
    if (const int64_t size = shared_axis(o)) {
      run_together(call, o, size, out);
    } else {
      for (const Copy& copy : copies_)
        if (copy.move.output == o) run(call, copy, out);
    }
  }
}

}  // namespace

PlanPtr make_move_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, std::vector<Move> moves,
                       std::vector<FillValue> fill_values, uint32_t n_scalars) {
  return std::make_unique<MovePlan>(std::move(inputs), std::move(outputs), moves,
                                    std::move(fill_values), n_scalars);
}

}  // namespace mx::cpu
