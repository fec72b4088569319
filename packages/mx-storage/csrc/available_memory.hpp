// SPDX-License-Identifier: Apache-2.0
//
// How much memory this process could still write to without being killed for it.
#pragma once

#include <cstdint>

namespace mx::storage {

// Bytes that the machine has free or could free, swap included, and that the process's control groups still
// allow; the largest number where the system does not say.
uint64_t available_memory() noexcept;

// The same under another root of the file system, for tests.
uint64_t available_memory(const char* root) noexcept;

}  // namespace mx::storage
