// SPDX-License-Identifier: Apache-2.0
#include "simd/accumulate.hpp"

#include <algorithm>

#include "mx_core/expression.h"
#include "simd/loops.hpp"

namespace mx::cpu {

void accumulate(int dtype, char* out, const char* in, int64_t n) {
  const LoopTable& table = loops();
  const Compute type = compute_of(dtype);
  const Loop add = table.op[type][MX_OP_ADD][0];
  if (dtype == kStorageOf[type]) {
    add(out, out, in, nullptr, static_cast<size_t>(n));
    return;
  }
  const size_t item = item_size(dtype);
  alignas(64) char a[256 * 8], b[256 * 8];
  for (int64_t done = 0; done < n; done += 256) {
    const auto some = static_cast<size_t>(std::min<int64_t>(256, n - done));
    char* to = out + static_cast<size_t>(done) * item;
    table.load[dtype][type](a, to, some);
    table.load[dtype][type](b, in + static_cast<size_t>(done) * item, some);
    add(a, a, b, nullptr, some);
    table.store[type][dtype](to, a, some);
  }
}

}  // namespace mx::cpu
