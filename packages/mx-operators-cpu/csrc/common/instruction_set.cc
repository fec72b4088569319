// SPDX-License-Identifier: Apache-2.0
#include "common/instruction_set.hpp"

#include <cstdlib>

namespace mx::cpu {

const char* name_of(InstructionSet set) {
  return set == InstructionSet::avx512 ? "avx512" : set == InstructionSet::avx2 ? "avx2" : "baseline";
}

std::optional<InstructionSet> instruction_set_named(std::string_view name) {
  for (const InstructionSet set : kInstructionSets)
    if (name == name_of(set)) return set;
  return std::nullopt;
}

bool has(InstructionSet set) {
#if defined(__x86_64__)
  switch (set) {
    case InstructionSet::avx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512cd") && has(InstructionSet::avx2);
    case InstructionSet::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
             __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("lzcnt");
    case InstructionSet::baseline: break;
  }
  return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
#else
  return set == InstructionSet::baseline;
#endif
}

InstructionSet instruction_set() {
  static const InstructionSet chosen = [] {
    const char* name = std::getenv("MX_VECTOR_ISA");
    const auto named = instruction_set_named(name == nullptr ? "" : name);
    if (named && has(*named)) return *named;
    for (const InstructionSet set : kInstructionSets)
      if (has(set)) return set;
    return InstructionSet::baseline;
  }();
  return chosen;
}

}  // namespace mx::cpu
