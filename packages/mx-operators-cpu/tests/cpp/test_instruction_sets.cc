// SPDX-License-Identifier: Apache-2.0
//
// Which loops are used: those of the best instruction set that the processor has, at most the one that is named.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "common/instruction_set.hpp"
#include "mx_core/native_tests.hpp"
#include "simd/loops.hpp"

using namespace mx::cpu;

namespace {

const LoopTable* own_loops(InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::avx512) return &avx512_loops();
  if (set == InstructionSet::avx2) return &avx2_loops();
#endif
  return &baseline_loops();
}

void every_instruction_set_has_loops_of_its_own() {
  for (const InstructionSet set : kInstructionSets) {
    CHECK(instruction_set_named(name_of(set)) == set);
    CHECK(loops_named(name_of(set)) == (has(set) ? own_loops(set) : nullptr));
  }
  CHECK(!instruction_set_named("mmx") && loops_named("mmx") == nullptr && loops_named("") == nullptr);
}

// Whether `check` holds in a process of its own, with the setting or without: it is looked at once.
template <class Check>
bool holds(const char* setting, Check check) {
  const pid_t child = ::fork();
  CHECK(child >= 0);
  if (child == 0) {
    ::unsetenv("MX_VECTOR_ISA");
    if (setting != nullptr) ::setenv("MX_VECTOR_ISA", setting, 1);
    ::_exit(check() ? 0 : 1);
  }
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void the_best_is_used_or_what_is_named() {
  const auto uses = [](InstructionSet set) {
    return [set] { return instruction_set() == set && &loops() == own_loops(set); };
  };
  bool best = true;
  for (const InstructionSet set : kInstructionSets) {  // the best first
    if (!has(set)) continue;
    CHECK(holds(name_of(set), uses(set)));
    CHECK(holds(nullptr, uses(set)) == best && holds("", uses(set)) == best);
    best = false;
  }
  CHECK(!best);
  CHECK(holds("mmx", [] {
    const std::string text = test::error_of([] { loops(); }, MX_ERROR_VALUE);
    return test::has(text, "[MX_VECTOR_ISA]: expected avx512, avx2 or baseline") && test::has(text, "got mmx");
  }));
}

}  // namespace

int main() {
  return test::run({{"every instruction set has loops of its own", every_instruction_set_has_loops_of_its_own},
                    {"the best is used, or what is named", the_best_is_used_or_what_is_named}});
}
