// SPDX-License-Identifier: Apache-2.0
#include "simd/loops.hpp"

#include <cstdlib>
#include <string>

#include "common/instruction_set.hpp"
#include "mx_core/failure.hpp"

namespace mx::cpu {
namespace {

const LoopTable& loops_of(InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::avx512) return avx512_loops();
  if (set == InstructionSet::avx2) return avx2_loops();
#endif
  return baseline_loops();
}

}  // namespace

const LoopTable* loops_named(const char* name) {
  const auto set = instruction_set_named(name);
  return set && has(*set) ? &loops_of(*set) : nullptr;
}

const LoopTable& loops() {
  static const LoopTable* best = [] {
    const char* chosen = std::getenv("MX_VECTOR_ISA");
    if (chosen != nullptr && *chosen != 0 && loops_named(chosen) == nullptr)
      throw Error(MX_ERROR_VALUE, std::string("[MX_VECTOR_ISA]: expected avx512, avx2 or baseline, as far as the "
                                              "processor has them, got ") + chosen);
    const InstructionSet set = instruction_set();
    if (!has(set))
      throw Error(MX_ERROR_UNSUPPORTED,
                  "[mx-operators-cpu] this CPU lacks SSE4.2, the least the vector loops need");
    return &loops_of(set);
  }();
  return *best;
}

}  // namespace mx::cpu
