// SPDX-License-Identifier: Apache-2.0
//
// Threads that help one kernel at a time and sleep otherwise.
#pragma once

#include <cstdint>
#include <type_traits>

namespace mx::vector {

// Calls body(context, begin, end) over [0, n) in pieces of `grain`, on at most `threads` threads
// of which the caller is one.  When another kernel has the helpers, the caller does everything.
// Blocks until all is done; the first exception of a body is thrown
// again here.  Threads: any.
using RangeBody = void (*)(void* context, int64_t begin, int64_t end);
void parallel_for(uint32_t threads, int64_t n, int64_t grain, RangeBody body, void* context);

template <class Body>
void parallel(uint32_t threads, int64_t n, int64_t grain, Body&& body) {
  if (threads <= 1 || n <= grain) {
    if (n > 0) body(int64_t{0}, n);
    return;
  }
  parallel_for(
      threads, n, grain,
      [](void* context, int64_t begin, int64_t end) {
        (*static_cast<std::remove_reference_t<Body>*>(context))(begin, end);
      },
      &body);
}

}  // namespace mx::vector
