// SPDX-License-Identifier: Apache-2.0
//
// Functions compiled for several instruction sets; the one to call is chosen when the library loads.
//
//   MX_CLONES(double, sum_of, (const double* x, int64_t n), (x, n)) {
//     ...
//   }
//
// defines `double sum_of(const double* x, int64_t n)`, which jumps to the clone for `instruction_set()`.
#pragma once

#include "common/instruction_set.hpp"

// So that a helper takes on the instruction set of the clone that calls it.
#define MX_INLINE inline __attribute__((always_inline))
#define MX_INLINE_LAMBDA __attribute__((always_inline))

#if defined(__x86_64__)
#define MX_TARGET(features) __attribute__((target(features)))
#else
#define MX_TARGET(features)
#endif

namespace mx::cpu {

// The clones of a function that is always inlined.
template <auto body>
struct Clones;

template <class Result, class... Arguments, Result (*body)(Arguments...)>
struct Clones<body> {
  using Pointer = Result (*)(Arguments...);

  MX_TARGET("avx512f") static Result avx512(Arguments... arguments) { return body(arguments...); }
  MX_TARGET("avx2,fma") static Result fused(Arguments... arguments) { return body(arguments...); }
  MX_TARGET("avx2") static Result avx2(Arguments... arguments) { return body(arguments...); }
  static Result baseline(Arguments... arguments) { return body(arguments...); }

  static Pointer best() {
    const InstructionSet set = instruction_set();
    return set == InstructionSet::avx512 ? avx512 : set == InstructionSet::avx2 ? fused : baseline;
  }
  static Pointer rounded() { return instruction_set() == InstructionSet::baseline ? baseline : avx2; }
};

template <auto body>
inline const auto best_clone = Clones<body>::best();
// Without fused products: what is computed, and so compared, is the same on every processor.
template <auto body>
inline const auto rounded_clone = Clones<body>::rounded();

}  // namespace mx::cpu

#define MX_DEFINE_CLONES(choice, result, name, parameters, arguments)                       \
  static MX_INLINE result name##_clone parameters;                                          \
  result name parameters {                                                                  \
    return ::mx::cpu::choice<static_cast<result(*) parameters>(&name##_clone)> arguments;   \
  }                                                                                         \
  static MX_INLINE result name##_clone parameters
#define MX_CLONES(result, name, parameters, arguments) MX_DEFINE_CLONES(best_clone, result, name, parameters, arguments)
#define MX_ROUNDED_CLONES(result, name, parameters, arguments) \
  MX_DEFINE_CLONES(rounded_clone, result, name, parameters, arguments)
