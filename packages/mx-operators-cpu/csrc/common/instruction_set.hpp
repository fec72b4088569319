// SPDX-License-Identifier: Apache-2.0
//
// Which vector instructions the loops of this package use: the best that the processor has, at most what the setting
// MX_VECTOR_ISA names.
#pragma once

#include <optional>
#include <string_view>

namespace mx::cpu {

enum class InstructionSet { baseline, avx2, avx512 };

constexpr InstructionSet kInstructionSets[] = {InstructionSet::avx512, InstructionSet::avx2, InstructionSet::baseline};

// "baseline", "avx2" or "avx512".
const char* name_of(InstructionSet set);
std::optional<InstructionSet> instruction_set_named(std::string_view name);
// Whether this processor and this build have all of it.
bool has(InstructionSet set);
// The chosen one, always the same. A setting that names none, or one that the processor lacks, counts for nothing
// here: `loops()` reports it.
InstructionSet instruction_set();

}  // namespace mx::cpu
