// SPDX-License-Identifier: Apache-2.0
#include "simd/loops.hpp"

#include <cstdlib>
#include <cstring>
#include <string>

#include "mx_core/failure.hpp"

namespace mx::cpu {

const LoopTable* loops_named(const char* name) {
#if defined(__x86_64__)
  if (std::strcmp(name, "avx512") == 0) {
    const bool runs = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512cd");
    return runs && loops_named("avx2") != nullptr ? &avx512_loops() : nullptr;
  }
  if (std::strcmp(name, "avx2") == 0) {
    const bool runs = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi") &&
                      __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("lzcnt");
    return runs ? &avx2_loops() : nullptr;
  }
  if (std::strcmp(name, "baseline") == 0)
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt") ? &baseline_loops()
                                                                               : nullptr;
  return nullptr;
#else
  return std::strcmp(name, "baseline") == 0 ? &baseline_loops() : nullptr;
#endif
}

const LoopTable& loops() {
  static const LoopTable* best = [] {
    const char* chosen = std::getenv("MX_VECTOR_ISA");
    if (chosen != nullptr && *chosen != 0) {
      if (const LoopTable* table = loops_named(chosen)) return table;
      throw Error(MX_ERROR_VALUE, std::string("[MX_VECTOR_ISA]: expected avx512, avx2 or baseline, as far as the "
                                              "processor has them, got ") + chosen);
    }
    for (const char* name : {"avx512", "avx2", "baseline"})
      if (const LoopTable* table = loops_named(name)) return table;
    throw Error(MX_ERROR_UNSUPPORTED,
                "[mx-operators-cpu] this CPU lacks SSE4.2, the least the vector loops need");
  }();
  return *best;
}

}  // namespace mx::cpu
