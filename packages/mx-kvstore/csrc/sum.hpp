// SPDX-License-Identifier: Apache-2.0
//
// Sums of arrays, written to several arrays at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mx::kv {

// Whether `sum` knows an element type (mx_dtype).
bool can_sum(int32_t dtype) noexcept;

// Writes the sum of `sources` over elements [begin, end) to every target.  Terms are added in their order; 16-bit floats
// in float32, rounded once; integers wrap around.  A target may be a source, but must not overlap one otherwise.
// `streaming`: past the caches, for what does not fit into them.  Threads: disjoint ranges at the same time.
void sum(int32_t dtype, const std::vector<const void*>& sources, const std::vector<void*>& targets, int64_t begin,
         int64_t end, bool streaming);

// As `sum`, but only the targets from number `cached` on go past the caches, and without a fence: `fence_streams` must
// follow on the same thread before others read them.
void sum_unfenced(int32_t dtype, const std::vector<const void*>& sources, const std::vector<void*>& targets,
                  int64_t begin, int64_t end, size_t cached);

}  // namespace mx::kv
