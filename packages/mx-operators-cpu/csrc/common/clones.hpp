// SPDX-License-Identifier: Apache-2.0
//
// Functions compiled for several instruction sets; the best one is chosen when the library loads.
#pragma once

// Sanitizers are not ready when the choice is made.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define MX_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
// Without fused products: what is computed, and so compared, is the same on every processor.
#define MX_ROUNDED_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define MX_CLONES
#define MX_ROUNDED_CLONES
#endif

// So that a helper takes on the instruction set of the clone that calls it.
#define MX_INLINE inline __attribute__((always_inline))
#define MX_INLINE_LAMBDA __attribute__((always_inline))
