// SPDX-License-Identifier: Apache-2.0
#include "elementwise/expression_source.hpp"

#include <cmath>
#include <cstring>
#include <optional>

#include "simd/loops.hpp"
#include "mx_core/failure.hpp"

namespace mx::cpu {

void bad(const std::string& why) {
  throw Error(MX_ERROR_VALUE, "[expression] " + why);
}

namespace {

template <class T>
std::vector<T> take(std::string_view& bytes, uint32_t n) {
  if (bytes.size() / sizeof(T) < n) bad("the serialised form is cut short");
  std::vector<T> items(n);
  if (n > 0) std::memcpy(items.data(), bytes.data(), n * sizeof(T));
  bytes.remove_prefix(n * sizeof(T));
  return items;
}

[[noreturn]] void unknown(uint16_t opcode) {
  throw Error(MX_ERROR_UNSUPPORTED,
              "[expression] opcode " + std::to_string(opcode) + " is not known here");
}

}  // namespace

uint32_t arity(uint16_t opcode) {
#define MX_EXPRESSION_ARITY(name, value, count) \
  case value:                                   \
    return count;
  switch (opcode) {
    MX_EXPRESSION_OPCODES(MX_EXPRESSION_ARITY)
    case kGelu:
      return 1;
    default:
      unknown(opcode);
  }
#undef MX_EXPRESSION_ARITY
}

Source parse(std::string_view bytes) {
  Source source;
  source.head = take<mx_expression_head>(bytes, 1)[0];
  const mx_expression_head& head = source.head;
  if (head.magic != MX_EXPRESSION_MAGIC || head.major != MX_EXPRESSION_MAJOR)
    bad("magic " + std::to_string(head.magic) + " version " + std::to_string(head.major) +
        "; expected " + std::to_string(MX_EXPRESSION_MAGIC) + " version 1");
  source.constants = take<double>(bytes, head.n_constants);
  source.steps = take<mx_instruction>(bytes, head.n_instructions);
  source.outputs = take<uint32_t>(bytes, head.n_outputs);
  if (!bytes.empty()) bad(std::to_string(bytes.size()) + " bytes too many");
  uint64_t exist = uint64_t{head.n_inputs} + head.n_scalars + head.n_constants;
  for (const mx_instruction& step : source.steps) {
    const uint32_t operands[] = {step.a, step.b, step.c};
    if (step.opcode == kGelu) unknown(step.opcode);  // ours alone
    for (uint32_t k = 0; k < arity(step.opcode); ++k)
      if (operands[k] >= exist)
        bad("an instruction reads value " + std::to_string(operands[k]) + " of " +
            std::to_string(exist));
    ++exist;
  }
  for (uint32_t value : source.outputs)
    if (value >= exist) bad("output is value " + std::to_string(value) + ", which does not exist");
  source.dropped.assign(source.steps.size(), false);
  return source;
}

namespace {

// The value that an instruction combines with another one, which `accept` knows.
template <class Accept>
std::optional<uint32_t> other(const mx_instruction& step, uint16_t opcode, Accept accept) {
  if (step.opcode != opcode) return std::nullopt;
  if (accept(step.a)) return step.b;
  if (accept(step.b)) return step.a;
  return std::nullopt;
}

class Fusion {
 public:
  explicit Fusion(Source& source)
      : s_(source),
        first_constant_(source.head.n_inputs + source.head.n_scalars),
        first_step_(first_constant_ + source.head.n_constants),
        uses_(first_step_ + source.steps.size(), 0) {
    for (const mx_instruction& step : s_.steps) {
      const uint32_t operands[] = {step.a, step.b, step.c};
      for (uint32_t k = 0; k < arity(step.opcode); ++k) ++uses_[operands[k]];
    }
    for (uint32_t value : s_.outputs) ++uses_[value];
  }

  void run() {
    for (mx_instruction& step : s_.steps) {
      if (step.opcode != MX_OP_MUL || !gelu(step.a, step.b)) continue;
      for (uint32_t value : inner_) s_.dropped[value - first_step_] = true;
      step = {kGelu, 0, x_, kAbsent, kAbsent};
    }
  }

 private:
  static constexpr uint32_t kAbsent = 0xffffffffu;

  auto constant(double wanted) const {
    return [this, wanted](uint32_t value) {
      return value >= first_constant_ && value < first_step_ &&
             std::abs(s_.constants[value - first_constant_] - wanted) < 1e-12;
    };
  }
  // The instruction that makes a value which is read once; noted as one that would be dropped.
  const mx_instruction* inner(uint32_t value) {
    if (value < first_step_ || uses_[value] != 1) return nullptr;
    inner_.push_back(value);
    return &s_.steps[value - first_step_];
  }
  bool gelu(uint32_t a, uint32_t b) { return gelu_of(a, b) || gelu_of(b, a); }
  bool gelu_of(uint32_t half, uint32_t sum) {
    inner_.clear();
    const mx_instruction *halving = inner(half), *adding = inner(sum);
    if (halving == nullptr || adding == nullptr) return false;
    const auto x = other(*halving, MX_OP_MUL, constant(0.5));
    const auto erf = other(*adding, MX_OP_ADD, constant(1.0));
    const mx_instruction* error = erf ? inner(*erf) : nullptr;
    if (!x || error == nullptr || error->opcode != MX_OP_ERF) return false;
    const mx_instruction* scaling = inner(error->a);
    if (scaling == nullptr) return false;
    const auto scaled = other(*scaling, MX_OP_MUL, constant(0.70710678118654752));
    x_ = *x;
    return scaled == x;
  }

  Source& s_;
  const uint32_t first_constant_, first_step_;
  std::vector<uint32_t> uses_;   // [value]
  std::vector<uint32_t> inner_;  // values of the pattern being looked at
  uint32_t x_ = kAbsent;
};

}  // namespace

void fuse(Source& source) { Fusion(source).run(); }

}  // namespace mx::cpu
