// SPDX-License-Identifier: Apache-2.0
//
// The OpenMP runtime that others brought into the process; the engine itself links none.
#pragma once

namespace mx::engine {

// Threads of the calling thread's next parallel region; 1 without a runtime.
int openmp_threads() noexcept;
// Has no effect without a runtime.
void set_openmp_threads(int n) noexcept;

}  // namespace mx::engine
