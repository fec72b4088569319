// SPDX-License-Identifier: Apache-2.0
//
// A matrix product as a step of a program.
#pragma once

#include "onednn/primitive_program.hpp"

namespace mx::cpu {

// c = a b + bias, of (m, k) and (k, n), or of batches of such, where a batch of one matrix serves all of c's.
// `bias`: one row that is added to all rows, or -1.
void add_product(ProgramBuilder& builder, Slot a, Slot b, Slot c, Slot bias, OutputMask mask);

}  // namespace mx::cpu
