// SPDX-License-Identifier: Apache-2.0
//
// Texts that live as long as the process.
#pragma once

namespace mx::engine {

// NULL when memory is exhausted, or for NULL.  Threads: any.
const char* intern(const char* text) noexcept;
// Held across fork().
void lock_interned() noexcept;
void unlock_interned() noexcept;

}  // namespace mx::engine
