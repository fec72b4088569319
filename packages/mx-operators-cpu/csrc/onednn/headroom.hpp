// SPDX-License-Identifier: Apache-2.0
//
// Memory that oneDNN needs to make primitives.
#pragma once

namespace mx::cpu {

// Throws mx::Error(MX_ERROR_MEMORY) where less memory can be had than making a primitive takes: oneDNN does not look at
// what its allocations give while it describes one, and would end the process.
void require_headroom();

}  // namespace mx::cpu
