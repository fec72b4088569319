// SPDX-License-Identifier: Apache-2.0
//
// Loops over the calling thread's OpenMP team.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace mx {

// Threads that a loop of this thread may use.
inline int team_size() {
#if defined(_OPENMP)
  return omp_get_max_threads();
#else
  return 1;
#endif
}

// Runs body(begin, end, thread) over [0, n) in contiguous shares, one per thread of the calling
// thread's team, at most `most` of them; `thread` counts from 0.  `body` must not throw.
template <class Body>
void parallel_shares(int64_t n, const Body& body, int most = std::numeric_limits<int>::max()) {
  const int64_t threads = std::min<int64_t>(std::min(team_size(), most), n);
  if (threads <= 1) {
    if (n > 0) body(int64_t{0}, n, 0);
    return;
  }
#if defined(_OPENMP)
#pragma omp parallel num_threads(static_cast<int>(threads))
  {
    const int64_t id = omp_get_thread_num(), team = omp_get_num_threads();
    const int64_t begin = n * id / team, end = n * (id + 1) / team;
    if (begin < end) body(begin, end, static_cast<int>(id));
  }
#endif
}

template <class Body>
void parallel_for(int64_t n, const Body& body) {
  parallel_shares(n, [&](int64_t begin, int64_t end, int) { body(begin, end); });
}

}  // namespace mx
