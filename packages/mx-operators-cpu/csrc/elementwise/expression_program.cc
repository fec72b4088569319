// SPDX-License-Identifier: Apache-2.0
#include "elementwise/expression_program.hpp"

#include <algorithm>

#include "elementwise/expression_source.hpp"

namespace mx::cpu {
namespace {

// Rows at least this long are worth a tile of their own.
constexpr int64_t kLongRow = 512;

Compute compute_type(const std::vector<Spec>& inputs) {
  bool wanted[kComputeTypes] = {};
  for (const Spec& input : inputs) wanted[compute_of(input.dtype)] = true;
  if (wanted[F64] || (wanted[F32] && wanted[I64])) return F64;
  if (wanted[F32] || inputs.empty()) return F32;
  return wanted[I64] ? I64 : I32;
}

enum Level : uint8_t { kOnce, kPerRow, kPerTile };

class Compiler {
 public:
  Compiler(const Source& source, const std::vector<Spec>& inputs, const std::vector<Spec>& outputs)
      : source_(source), inputs_(inputs), outputs_(outputs), table_(loops()) {}

  Program compile() {
    check_signature();
    p_.compute = compute_type(inputs_);
    p_.item_size = item_size(kStorageOf[p_.compute]);
    p_.n_scalars = source_.head.n_scalars;
    p_.shape = collapse(outputs_[0].shape, inputs_);
    p_.rows = p_.shape.sizes.size() <= 1 || p_.shape.sizes.back() >= kLongRow;
    number_values();
    place_operands();
    place_uniforms();
    emit_steps();
    place_results();
    assign_tiles();
    return std::move(p_);
  }

 private:
  void check_signature() const {
    if (source_.head.n_inputs != inputs_.size() || source_.outputs.size() != outputs_.size() ||
        outputs_.empty())
      bad(std::to_string(source_.head.n_inputs) + " inputs and " +
          std::to_string(source_.outputs.size()) + " outputs; got " +
          std::to_string(inputs_.size()) + " and " + std::to_string(outputs_.size()));
    for (const Spec& output : outputs_)
      if (output.shape != outputs_[0].shape)
        throw Error(MX_ERROR_SHAPE, "[expression] outputs differ in shape");
  }

  void number_values() {
    const mx_expression_head& head = source_.head;
    first_step_ = head.n_inputs + head.n_scalars + head.n_constants;
    p_.n_slots = first_step_ + head.n_instructions;
    p_.tile_of.assign(p_.n_slots, kNone);
    level_.assign(p_.n_slots, kOnce);
    born_.assign(p_.n_slots, -1);
    last_.assign(p_.n_slots, -2);
    used_.assign(p_.n_slots, false);
    for (size_t i = 0; i < source_.steps.size(); ++i) {
      const mx_instruction& step = source_.steps[i];
      const uint32_t operands[] = {step.a, step.b, step.c};
      for (uint32_t k = 0; k < arity(step.opcode) && !source_.dropped[i]; ++k)
        used_[operands[k]] = true;
    }
    for (uint32_t value : source_.outputs) used_[value] = true;
  }

  void place_operands() {
    const size_t rank = p_.shape.sizes.size();
    p_.operands.resize(inputs_.size());
    for (uint32_t i = 0; i < inputs_.size(); ++i) {
      Operand& operand = p_.operands[i];
      const Shape& strides = p_.shape.strides[i];
      const bool scalar = std::all_of(strides.begin(), strides.end(), [](auto s) { return s == 0; });
      const bool same_type = inputs_[i].dtype == kStorageOf[p_.compute];
      if (!used_[i]) continue;
      // Outputs are stored one after the other, and one may lie where this input does: it is read before.
      const bool kept = outputs_.size() > 1 && is_output(i);
      if (!same_type || scalar || kept) operand.convert = table_.load[inputs_[i].dtype][p_.compute];
      if (scalar) {
        operand.access = Access::kScalar;
      } else if (p_.rows && strides[rank - 1] == 0) {
        operand.access = Access::kRow;
        operand.convert = table_.load[inputs_[i].dtype][p_.compute];
        level_[i] = kPerRow;
      } else if (p_.rows || contiguous(strides)) {
        operand.access = same_type && !kept ? Access::kDirect : Access::kConvert;
        level_[i] = kPerTile;
      } else {
        operand.access = Access::kExpand;
        operand.periodic = note_period(strides);
        level_[i] = kPerTile;
      }
    }
  }

  bool is_output(uint32_t value) const {
    return std::find(source_.outputs.begin(), source_.outputs.end(), value) != source_.outputs.end();
  }

  bool contiguous(const Shape& strides) const {
    int64_t expected = 1;
    for (size_t axis = strides.size(); axis-- > 0; expected *= p_.shape.sizes[axis])
      if (strides[axis] != expected) return false;
    return true;
  }

  // A block that repeats: contiguous inner axes under broadcast outer ones.
  bool note_period(const Shape& strides) {
    int64_t block = 1;
    size_t axis = strides.size();
    for (; axis > 0 && strides[axis - 1] == block; --axis) block *= p_.shape.sizes[axis - 1];
    if (axis == strides.size()) return false;
    while (axis > 0)
      if (strides[--axis] != 0) return false;
    if (p_.period != 0 && p_.period != block) return false;
    p_.period = block;
    return true;
  }

  void place_uniforms() {
    const uint32_t first = source_.head.n_inputs;
    for (uint32_t i = 0; i < source_.head.n_scalars; ++i)
      p_.uniforms.push_back({first + i, 0.0, i});
    for (uint32_t i = 0; i < source_.head.n_constants; ++i)
      p_.uniforms.push_back({first + source_.head.n_scalars + i, source_.constants[i], kNone});
  }

  // Instruction k reads `value`: keeps its tile.
  void read(uint32_t value, int32_t k) { last_[value] = std::max(last_[value], k); }

  void emit_steps() {
    for (uint32_t k = 0; k < source_.steps.size(); ++k) {
      if (source_.dropped[k]) continue;
      const mx_instruction& step = source_.steps[k];
      const uint32_t out = first_step_ + k;
      const uint32_t operands[] = {step.a, step.b, step.c};
      const uint32_t n = arity(step.opcode);
      uint32_t form = 0;
      for (uint32_t i = 0; i < n; ++i) {
        level_[out] = std::max(level_[out], level_[operands[i]]);
        if (level_[operands[i]] < kPerTile) form |= 1u << i;
      }
      auto& list = level_[out] == kPerTile   ? p_.per_tile
                   : level_[out] == kPerRow ? p_.per_row
                                            : p_.once;
      if (level_[out] < kPerTile) form = 0;
      if (level_[out] == kPerTile)
        for (uint32_t i = 0; i < n; ++i) {
          read(operands[i], static_cast<int32_t>(k));
          if (is_direct(operands[i])) last_direct_read_ = static_cast<int32_t>(k);
        }
      born_[out] = static_cast<int32_t>(k);
      if (step.opcode == MX_OP_CAST) {
        emit_cast(list, step, out, static_cast<int32_t>(k));
        continue;
      }
      const Loop loop = table_.op[p_.compute][step.opcode][form];
      if (loop == nullptr)
        throw Error(MX_ERROR_UNSUPPORTED,
                    "[expression] no loop for opcode " + std::to_string(step.opcode));
      const Step made{loop, nullptr, out, step.a, n > 1 ? step.b : step.a,
                      n > 2 ? step.c : step.a,
                      p_.compute == F32 ? table_.streamed[step.opcode][form] : nullptr};
      list.push_back(made);
      if (level_[out] == kOnce) {
        p_.once_wide.push_back(made);
        p_.once_wide.back().loop = table_.op[F64][step.opcode][0];
      }
    }
  }

  void emit_cast(std::vector<Step>& list, const mx_instruction& step, uint32_t out, int32_t k) {
    if (!known(step.argument))
      throw Error(MX_ERROR_UNSUPPORTED, "[expression] no loop casts to element type code " +
                                            std::to_string(step.argument));
    const uint32_t between = p_.n_slots++;
    p_.tile_of.push_back(kNone);
    level_.push_back(level_[out]);
    born_.push_back(k);
    last_.push_back(k);
    used_.push_back(true);
    const auto halves = [&](std::vector<Step>& to, Compute type) {
      to.push_back({nullptr, table_.store[type][step.argument], between, step.a, 0, 0, nullptr});
      to.push_back({nullptr, table_.load[step.argument][type], out, between, 0, 0, nullptr});
    };
    halves(list, p_.compute);
    if (level_[out] == kOnce) halves(p_.once_wide, F64);
  }

  bool is_direct(uint32_t value) const {
    return value < inputs_.size() && p_.operands[value].access == Access::kDirect;
  }

  void place_results() {
    constexpr int32_t end = INT32_MAX;
    for (size_t o = 0; o < outputs_.size(); ++o) {
      const uint32_t value = source_.outputs[o];
      read(value, end);
      if (is_direct(value)) last_direct_read_ = end;
    }
    std::vector<bool> taken(p_.n_slots, false);
    for (size_t o = 0; o < outputs_.size(); ++o) {
      ProgramResult result{};
      result.value = source_.outputs[o];
      result.uniform = level_[result.value] < kPerTile;
      const bool same_type = outputs_[o].dtype == kStorageOf[p_.compute];
      if (!same_type) {
        result.store = table_.store[p_.compute][outputs_[o].dtype];
        result.load = table_.load[outputs_[o].dtype][p_.compute];
      }
      // Written early, an output that shares memory with an input would spoil later reads of it.
      result.direct = same_type && !result.uniform && result.value >= first_step_ &&
                      born_[result.value] >= last_direct_read_ && !taken[result.value];
      if (result.direct) taken[result.value] = true;
      p_.results.push_back(result);
    }
  }

  uint32_t new_tile() {
    if (!free_.empty()) {
      const uint32_t tile = free_.back();
      free_.pop_back();
      return tile;
    }
    return p_.n_tiles++;
  }

  void assign_tiles() {
    for (uint32_t i = 0; i < p_.operands.size(); ++i) {
      Operand& operand = p_.operands[i];
      if (operand.access != Access::kConvert && operand.access != Access::kExpand) continue;
      if (operand.access == Access::kExpand && operand.convert != nullptr)
        operand.spread = p_.n_tiles++;
      operand.tile = p_.tile_of[i] = p_.n_tiles++;
      if (operand.periodic) last_[i] = INT32_MAX;  // stays from tile to tile
    }
    p_.is_uniform.resize(p_.n_slots);
    for (uint32_t v = 0; v < p_.n_slots; ++v) p_.is_uniform[v] = level_[v] < kPerTile ? 1 : 0;
    for (uint32_t v = 0; v < p_.n_slots; ++v)
      if (level_[v] == kOnce && used_[v] && v < first_step_ + source_.steps.size())
        p_.once_slots.push_back(v);
    std::vector<bool> is_output(p_.n_slots, false);
    for (const ProgramResult& result : p_.results)
      if (result.direct) is_output[result.value] = true;
    uint32_t written = 0;
    for (const Step& step : p_.per_tile) {
      const int32_t k = born_[step.out];
      // The two halves of a cast differ in element size: they must not share a tile.
      if (step.loop != nullptr)
        for (uint32_t value : {step.a, step.b, step.c}) release(value, k);
      p_.tile_of[step.out] = new_tile();
      written += is_output[step.out] ? 0 : 1;
      if (step.loop == nullptr) release(step.a, k);
      if (last_[step.out] < k) last_[step.out] = k;
    }
    p_.needs_tiles = written > 0 ||
                     std::any_of(p_.operands.begin(), p_.operands.end(),
                                 [](const Operand& o) { return o.tile != kNone; });
    for (ProgramResult& result : p_.results) {
      result.spare = p_.n_tiles++;
      if (!result.direct) p_.needs_tiles = true;
    }
  }

  void release(uint32_t value, int32_t k) {
    if (last_[value] != k || p_.tile_of[value] == kNone || released(value)) return;
    released_.push_back(value);
    free_.push_back(p_.tile_of[value]);
  }
  bool released(uint32_t value) const {
    return std::find(released_.begin(), released_.end(), value) != released_.end();
  }

  const Source& source_;
  const std::vector<Spec>& inputs_;
  const std::vector<Spec>& outputs_;
  const LoopTable& table_;
  Program p_;
  uint32_t first_step_ = 0;
  int32_t last_direct_read_ = -1;
  std::vector<Level> level_;           // [slot]
  std::vector<int32_t> born_, last_;   // [slot]: instruction that writes it, last that reads it
  std::vector<bool> used_;             // [slot]
  std::vector<uint32_t> free_, released_;
};

}  // namespace

Program compile(std::string_view serialized, const std::vector<Spec>& inputs,
                const std::vector<Spec>& outputs) {
  Source source = parse(serialized);
  const Compute type = compute_type(inputs);
  if (type == F32 || type == F64) fuse(source);
  return Compiler(source, inputs, outputs).compile();
}

}  // namespace mx::cpu
