// SPDX-License-Identifier: Apache-2.0
#include "elementwise/expression_plan.hpp"

#include <algorithm>
#include <cstring>

#include "common/clones.hpp"
#include "common/parallel.hpp"
#include "elementwise/copy_plan.hpp"
#include "elementwise/expression_program.hpp"
#include "elementwise/expression_source.hpp"
#include "common/scratch.hpp"

namespace mx::cpu {
namespace {

constexpr size_t kTileBudget = 24 << 10;      // bytes of all tiles: half a first-level cache
constexpr int64_t kLongTile = 16384;          // elements, when no tile is touched
constexpr size_t kStreamBytes = 24 << 20;     // inputs and outputs that no cache will hold
constexpr int64_t kPieceBytes = 128 << 10;    // what a thread takes at a time
constexpr size_t kFetchBytes = 1 << 20;       // inputs and outputs that a second-level cache will not hold
constexpr size_t kStackBytes = 64 << 10;      // of tiles and slots; more of them lie in scratch memory
constexpr size_t kFewResults = 64;            // whose sinks lie on the stack
constexpr size_t kLine = 64;                  // bytes of a cache line

enum class Sink : uint8_t {
  kNothing,
  kInPlace,   // the instruction writes to the output
  kStreamed,  // likewise, past the caches
  kCopy,      // all others: from the tile
  kStream,
  kConvert,
  kConvertStream,
  kAdd
};

bool written_in_place(Sink sink) { return sink == Sink::kInPlace || sink == Sink::kStreamed; }

class ExpressionPlan final : public Plan {
 public:
  ExpressionPlan(Program program, std::vector<Spec> inputs, std::vector<Spec> outputs,
                 std::vector<Spec> results, const ExpressionOptions& options)
      : Plan(std::move(inputs), std::move(outputs), program.n_scalars),
        p_(std::move(program)),
        table_(loops()),
        results_(std::move(results)),
        options_(options) {
    row_ = !p_.rows || p_.shape.sizes.empty() ? results_[0].size() : p_.shape.sizes.back();
    for (const Spec& spec : inputs_) bytes_ += spec.bytes();
    for (const Spec& spec : results_) bytes_ += spec.bytes();
    const size_t one = std::max<size_t>(p_.n_tiles, 1) * p_.item_size;
    tile_ = std::max<int64_t>(static_cast<int64_t>(kTileBudget / one) / 64 * 64, 128);
    tile_ = std::min<int64_t>(tile_, 1024);
    if (p_.period > 0 && p_.period <= tile_) tile_ = tile_ / p_.period * p_.period;
    periodic_ = p_.period > 0 && p_.period <= tile_;
    if (frame_bytes() > kStackBytes) frame_ = add_thread_scratch(frame_bytes());
    if (results_.size() > kFewResults) sinks_ = add_scratch<Sink>(static_cast<int64_t>(results_.size()));
  }

 protected:
  void execute(const Call& call) const override;

 private:
  struct Frame;
  void run(const Call& call, const Sink* sinks, int64_t tile, int64_t begin, int64_t end, char* memory) const;
  void set_uniforms(const Call& call, Frame& f) const;
  void set_row(const Call& call, Frame& f, int64_t row) const;
  void load_tile(const Call& call, Frame& f, int64_t row_start, int64_t start, int64_t n,
                 bool fetching) const;
  void store_tile(const Call& call, Frame& f, const Sink* sinks, int64_t start, int64_t n) const;
  Sink sink(const Call& call, size_t o) const;
  int64_t offset(size_t i, int64_t row) const;

  void step(const Step& s, Frame& f, int64_t n) const;

  char* target(const Call& call, size_t o) const {
    return o < outputs_.size() ? call.output(o)
                               : call.state(options_.mutated[o - outputs_.size()]);
  }

  // Of one thread: slots and tiles.
  size_t frame_bytes() const {
    return aligned(p_.n_slots * (sizeof(char*) + sizeof(uint64_t))) + static_cast<size_t>(tile_) * 8 * p_.n_tiles;
  }

  const Program p_;
  const LoopTable& table_;
  const std::vector<Spec> results_;  // outputs, then mutated inputs
  const ExpressionOptions options_;
  int64_t row_;   // elements of a row: tiles do not cross it
  int64_t tile_;  // elements
  bool periodic_;
  size_t bytes_ = 0;
  PerThread frame_;  // where it does not fit on the stack
  Section sinks_;
};

// What the next tile will read and write: brought near while this one is computed.  Left to itself the
// processor starts anew at every tile, since each ends before it has recognised the stream.
class Ahead {
 public:
  void clear() { n_ = lines_ = 0; }
  void add(const char* from, size_t bytes) {
    for (size_t i = 0; i < n_; ++i)
      if (from_[i] == from) return;
    if (n_ == kMost) return;
    from_[n_] = from;
    lines_ += bytes / kLine;
    end_[n_++] = lines_;
  }
  // The share of step k of n.  Inlined: GCC drops calls of functions that do nothing but this.
  MX_INLINE void fetch(size_t k, size_t n) const {
    const size_t stop = lines_ * (k + 1) / n;
    size_t line = lines_ * k / n;
    for (size_t i = 0; i < n_; ++i)
      for (const size_t start = i == 0 ? 0 : end_[i - 1]; line < std::min(stop, end_[i]); ++line)
        __builtin_prefetch(from_[i] + (line - start) * kLine, 0, 3);
  }

 private:
  static constexpr size_t kMost = 12;
  const char* from_[kMost];
  size_t end_[kMost];  // lines up to here
  size_t n_ = 0, lines_ = 0;
};

struct ExpressionPlan::Frame {
  Frame(const Program& p, char* memory, size_t tile_bytes_)
      : slots(reinterpret_cast<char**>(memory)),
        numbers(reinterpret_cast<uint64_t*>(slots + p.n_slots)),
        tiles(memory + slot_bytes(p)),
        tile_bytes(tile_bytes_) {}
  static size_t slot_bytes(const Program& p) { return aligned(p.n_slots * (sizeof(char*) + sizeof(uint64_t))); }
  char* tile(uint32_t i) const { return tiles + i * tile_bytes; }
  char** const slots;
  uint64_t* const numbers;  // of uniform values
  char* const tiles;
  const size_t tile_bytes;
  bool spread = false;  // periodic operands are in their tiles
  Ahead ahead;
};

Sink ExpressionPlan::sink(const Call& call, size_t o) const {
  const ProgramResult& result = p_.results[o];
  const bool output = o < outputs_.size();
  if (output && !call.wanted(o)) return Sink::kNothing;
  if (output && call.adds(o)) return Sink::kAdd;
  const Sink near = result.store != nullptr ? Sink::kConvert : result.direct ? Sink::kInPlace : Sink::kCopy;
  if (result.uniform || bytes_ < kStreamBytes) return near;
  const char* out = target(call, o);
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (call.input(i) < out + results_[o].bytes() && out < call.input(i) + inputs_[i].bytes()) return near;
  if (result.store != nullptr) return Sink::kConvertStream;
  const bool last = result.direct && p_.per_tile.back().out == result.value;
  const bool aligned = reinterpret_cast<uintptr_t>(out) % 64 == 0 &&
                       tile_ % 16 == 0 && (row_ == results_[o].size() || row_ % 16 == 0);
  return last && aligned && p_.per_tile.back().streamed != nullptr ? Sink::kStreamed : Sink::kStream;
}

inline void ExpressionPlan::step(const Step& s, Frame& f, int64_t n) const {
  const auto count = static_cast<size_t>(n);
  if (s.loop != nullptr) {
    s.loop(f.slots[s.out], f.slots[s.a], f.slots[s.b], f.slots[s.c], count);
  } else {
    s.convert(f.slots[s.out], f.slots[s.a], count);
  }
}

void ExpressionPlan::execute(const Call& call) const {
  const int64_t total = results_[0].size();
  if (total == 0) return;
  Sink few[kFewResults];
  Sink* sinks = results_.size() <= kFewResults ? few : call.scratch<Sink>(sinks_);
  bool tiled = p_.needs_tiles;
  for (size_t o = 0; o < results_.size(); ++o) {
    sinks[o] = sink(call, o);
    if (!written_in_place(sinks[o])) tiled = true;
  }
  const int64_t tile = tiled ? tile_ : kLongTile;
  const int64_t rows = total / row_, per_row = (row_ + tile - 1) / tile;
  const auto width = static_cast<int64_t>(bytes_) / total + 1;  // bytes per element
  const int64_t grain = std::max<int64_t>(1, kPieceBytes / (width * std::min(tile, row_)));
  parallel_for(rows * per_row, grain,
               [&](int64_t begin, int64_t end, int thread) {
                 if (frame_.step > 0) return run(call, sinks, tile, begin, end, frame_.of(call, thread));
                 alignas(64) char memory[kStackBytes];
                 run(call, sinks, tile, begin, end, memory);
               });
}

void ExpressionPlan::run(const Call& call, const Sink* sinks, int64_t tile, int64_t begin,
                         int64_t end, char* memory) const {
  const size_t tile_bytes = static_cast<size_t>(tile) * 8;
  const bool tiled = tile == tile_;
  Frame f(p_, memory, tile_bytes);
  if (tiled)
    for (uint32_t v = 0; v < p_.n_slots; ++v)
      if (p_.tile_of[v] != kNone) f.slots[v] = f.tile(p_.tile_of[v]);
  set_uniforms(call, f);
  const int64_t per_row = (row_ + tile - 1) / tile;
  Step last{};
  size_t plain = p_.per_tile.size();  // instructions before a streamed one
  for (size_t o = 0; o < results_.size(); ++o)
    if (sinks[o] == Sink::kStreamed) {
      last = p_.per_tile[plain = p_.per_tile.size() - 1];
      last.loop = last.streamed;
    }
  int64_t row = begin / per_row, column = begin % per_row * tile;
  set_row(call, f, row);
  const bool fetching = tiled && bytes_ > kFetchBytes;
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t n = std::min(tile, row_ - column), start = row * row_ + column;
    f.ahead.clear();
    load_tile(call, f, row, column, n, fetching);
    const auto bytes = static_cast<size_t>(n) * p_.item_size;
    for (size_t o = 0; o < p_.results.size(); ++o) {
      if (!written_in_place(sinks[o])) continue;
      char* to = target(call, o) + start * static_cast<int64_t>(p_.item_size);
      f.slots[p_.results[o].value] = to;
      if (fetching && sinks[o] == Sink::kInPlace) f.ahead.add(to + bytes, bytes);
    }
    for (size_t k = 0; k < plain; ++k) {
      f.ahead.fetch(k, plain);
      step(p_.per_tile[k], f, n);
    }
    if (plain == 0) f.ahead.fetch(0, 1);
    if (plain < p_.per_tile.size()) step(last, f, n);
    store_tile(call, f, sinks, start, n);
    column += tile;
    if (column >= row_ && unit + 1 < end) {
      column = 0;
      set_row(call, f, ++row);
    }
  }
}

void ExpressionPlan::set_uniforms(const Call& call, Frame& f) const {
  for (uint32_t v = 0; v < p_.n_slots; ++v)
    if (p_.is_uniform[v] != 0) f.slots[v] = reinterpret_cast<char*>(&f.numbers[v]);
  const Compute compute = options_.wide_scalars ? F64 : p_.compute;
  for (const Uniform& uniform : p_.uniforms) {
    const double number = uniform.scalar == kNone ? uniform.number : call.scalar(uniform.scalar);
    table_.load[MX_FLOAT64][compute](f.slots[uniform.slot], &number, 1);
  }
  for (size_t i = 0; i < p_.operands.size(); ++i)
    if (p_.operands[i].access == Access::kScalar)
      table_.load[inputs_[i].dtype][compute](f.slots[i], call.input(i), 1);
  for (const Step& s : options_.wide_scalars ? p_.once_wide : p_.once) step(s, f, 1);
  if (compute == p_.compute) return;
  for (uint32_t v : p_.once_slots) table_.load[MX_FLOAT64][p_.compute](f.slots[v], f.slots[v], 1);
}

// Offset in elements of operand i at the first element of a row.
int64_t ExpressionPlan::offset(size_t i, int64_t row) const {
  const Shape& sizes = p_.shape.sizes;
  const Shape& strides = p_.shape.strides[i];
  int64_t result = 0;
  for (size_t axis = sizes.size() - 1; axis-- > 0; row /= sizes[axis])
    result += row % sizes[axis] * strides[axis];
  return result;
}

void ExpressionPlan::set_row(const Call& call, Frame& f, int64_t row) const {
  if (!p_.rows || p_.shape.sizes.size() <= 1) return;
  for (size_t i = 0; i < p_.operands.size(); ++i)
    if (p_.operands[i].access == Access::kRow)
      p_.operands[i].convert(
          f.slots[i],
          call.input(i) + offset(i, row) * static_cast<int64_t>(item_size(inputs_[i].dtype)), 1);
  for (const Step& s : p_.per_row) step(s, f, 1);
}

void ExpressionPlan::load_tile(const Call& call, Frame& f, int64_t row, int64_t column,
                               int64_t n, bool fetching) const {
  const bool many_rows = p_.rows && p_.shape.sizes.size() > 1;
  for (size_t i = 0; i < p_.operands.size(); ++i) {
    const Operand& operand = p_.operands[i];
    const size_t size = item_size(inputs_[i].dtype);
    if (operand.access == Access::kExpand) {
      if (operand.periodic && periodic_ && f.spread) continue;
      char* to = f.tile(operand.convert == nullptr ? operand.tile : operand.spread);
      // A periodic operand fills the whole tile, for the longer tiles to come.
      const int64_t count = operand.periodic && periodic_ ? std::min(tile_, row_ - column) : n;
      expand(to, call.input(i), p_.shape.sizes, p_.shape.strides[i], column, count, size);
      if (operand.convert != nullptr)
        operand.convert(f.tile(operand.tile), to, static_cast<size_t>(count));
      continue;
    }
    if (operand.access != Access::kDirect && operand.access != Access::kConvert) continue;
    const int64_t at = (many_rows ? offset(i, row) : 0) + column;
    const char* from = call.input(i) + at * static_cast<int64_t>(size);
    const auto bytes = static_cast<size_t>(n) * size;
    if (fetching) f.ahead.add(from + bytes, bytes);
    if (operand.access == Access::kDirect) {
      f.slots[i] = const_cast<char*>(from);
    } else {
      operand.convert(f.tile(operand.tile), from, static_cast<size_t>(n));
    }
  }
  f.spread = n == tile_;
}

void ExpressionPlan::store_tile(const Call& call, Frame& f, const Sink* sinks, int64_t start,
                                int64_t n) const {
  const auto count = static_cast<size_t>(n);
  for (size_t o = 0; o < p_.results.size(); ++o) {
    if (sinks[o] == Sink::kNothing || written_in_place(sinks[o])) continue;
    const ProgramResult& result = p_.results[o];
    const size_t size = item_size(results_[o].dtype);
    char* out = target(call, o) + start * static_cast<int64_t>(size);
    char* value = f.slots[result.value];
    char* spare = f.tile(result.spare);
    const auto& op = table_.op[p_.compute];
    if (result.uniform) {
      fill(spare, value, n, p_.item_size);
      value = spare;
    }
    if (sinks[o] == Sink::kAdd) {
      if (result.store == nullptr) {
        op[MX_OP_ADD][0](out, out, value, nullptr, count);
        continue;
      }
      // `value` may be the spare tile itself: convert what is there after it.
      alignas(64) char there[256 * 8], whole[256 * 8];
      const Compute kind = compute_of(results_[o].dtype);
      const bool fractions = kind == F32 || kind == F64;
      for (size_t done = 0; done < count; done += 256) {
        const size_t some = std::min<size_t>(256, count - done);
        const char* addend = value + done * p_.item_size;
        if (!fractions) {  // what is added is what would have been written
          result.store(there, addend, some);
          result.load(whole, there, some);
          addend = whole;
        }
        result.load(there, out + done * size, some);
        op[MX_OP_ADD][0](there, there, addend, nullptr, some);
        result.store(out + done * size, there, some);
      }
    } else if (sinks[o] == Sink::kConvert) {
      result.store(out, value, count);
    } else if (sinks[o] == Sink::kConvertStream) {
      result.store(spare, value, count);
      table_.stream(out, spare, count * size);
    } else if (sinks[o] == Sink::kStream) {
      table_.stream(out, value, count * size);
    } else {
      std::memmove(out, value, count * size);
    }
  }
}

}  // namespace

PlanPtr make_expression_plan(std::string_view serialized, std::vector<Spec> inputs,
                             std::vector<Spec> outputs, const ExpressionOptions& options) {
  for (const std::vector<Spec>* specs : {&inputs, &outputs})
    for (const Spec& spec : *specs)
      if (!known(spec.dtype))
        throw Error(MX_ERROR_UNSUPPORTED, "[expression] element type code " +
                                              std::to_string(spec.dtype) + " has no vector loops");
  if (options.mutated.empty())
    if (PlanPtr copy = make_copy_plan(parse(serialized), inputs, outputs)) return copy;
  std::vector<Spec> results = outputs;
  for (uint32_t i : options.mutated) {
    if (i >= inputs.size())
      throw Error(MX_ERROR_VALUE, "[expression] input " + std::to_string(i) +
                                      " is to be mutated; there are " +
                                      std::to_string(inputs.size()));
    results.push_back(inputs[i]);
  }
  Program program = compile(serialized, inputs, results);
  return std::make_unique<ExpressionPlan>(std::move(program), std::move(inputs),
                                          std::move(outputs), std::move(results), options);
}

}  // namespace mx::cpu
