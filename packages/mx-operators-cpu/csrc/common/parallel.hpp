// SPDX-License-Identifier: Apache-2.0
//
// The one team of threads that computes: OpenMP's, which oneDNN uses too.
//
// OpenMP keeps a team per thread that opens parallel regions; engines run plans that open them (MX_PLAN_PARALLEL) on
// one thread per device.  Loops inside of a parallel region, and those of a thread whose TeamScope is 1, are serial.
// With MX_STD_THREADS loops run on threads of their own, for the thread sanitizer, which does not know how OpenMP's
// threads wait for each other.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <limits>
#include <mutex>
#include <type_traits>
#include <utility>

#include <omp.h>

#if defined(MX_STD_THREADS)
#include <thread>
#include <vector>
#endif

namespace mx::cpu {

#if defined(MX_STD_THREADS)
inline thread_local int team_of_thread = 2;
inline int team_size() { return team_of_thread; }
inline void set_team_size(int threads) { team_of_thread = threads; }
#else
// Threads that a loop of this thread may use.
inline int team_size() { return omp_in_parallel() ? 1 : omp_get_max_threads(); }
inline void set_team_size(int threads) { omp_set_num_threads(threads); }
#endif

// Sets the calling thread's team size for a scope.  oneDNN reads it when a primitive is made (blocking, scratchpads)
// and when one runs.
class TeamScope {
 public:
  explicit TeamScope(int threads) : before_(team_size()), now_(std::max(1, threads)) {
    if (now_ != before_) set_team_size(now_);
  }
  ~TeamScope() {
    if (now_ != before_) set_team_size(before_);
  }
  TeamScope(const TeamScope&) = delete;
  TeamScope& operator=(const TeamScope&) = delete;

 private:
  int before_, now_;
};

namespace detail {

// The first exception of a parallel region, thrown again after it.
class FirstException {
 public:
  template <class Body>
  void guard(const Body& body) noexcept {
    try {
      body();
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (first_ == nullptr) first_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (first_ != nullptr) std::rethrow_exception(first_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr first_;
};

// Orders stores past the caches, which are weakly ordered, before whatever tells others that a kernel is done: that may
// be a plain store.  To be called by the thread that stored.
inline void fence_streaming_stores() {
#if defined(__x86_64__)
  __builtin_ia32_sfence();
#endif
}

// Runs body(thread, threads) on every thread of the team, which is never opened with fewer threads than it has: OpenMP
// would end the others.  `threads`: how many there are in fact.
template <class Body>
void on_team(int team, const Body& body) {
  FirstException failure;
#if defined(MX_STD_THREADS)
  std::vector<std::thread> others;
  for (int thread = 1; thread < team; ++thread)
    others.emplace_back([&, thread] {
      failure.guard([&] { body(thread, team); });
      fence_streaming_stores();
    });
  {
    const TeamScope alone(1);
    failure.guard([&] { body(0, team); });
  }
  for (std::thread& other : others) other.join();
#else
#pragma omp parallel num_threads(team)
  {
    failure.guard([&] { body(omp_get_thread_num(), omp_get_num_threads()); });
    fence_streaming_stores();
  }
#endif
  failure.rethrow();
}

template <class Body>
void call(const Body& body, int64_t begin, int64_t end, int thread) {
  if constexpr (std::is_invocable_v<const Body&, int64_t, int64_t, int>) {
    body(begin, end, thread);
  } else {
    body(begin, end);
  }
}

}  // namespace detail

// Calls body(begin, end) or body(begin, end, thread) over [0, n) in pieces of `grain`, on the calling thread's team; a
// thread takes the next piece when it is done with one.  `thread` counts from 0 and stays below team_size().
// Blocks until all is done.  Errors: the first exception of `body` is thrown again.
template <class Body>
void parallel_for(int64_t n, int64_t grain, const Body& body) {
  if (n <= 0) return;
  const int team = n > grain ? team_size() : 1;
  if (team <= 1) return detail::call(body, int64_t{0}, n, 0);
  std::atomic<int64_t> next{0};
  detail::on_team(team, [&](int thread, int) {
    for (;;) {
      const int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= n) return;
      detail::call(body, begin, std::min(n, begin + grain), thread);
    }
  });
}

// The same in one contiguous share per thread, on at most `most` threads: for bodies that keep sums of their own.
template <class Body>
void parallel_shares(int64_t n, const Body& body, int most = std::numeric_limits<int>::max()) {
  if (n <= 0) return;
  const int team = team_size();
  if (team <= 1 || most <= 1 || n == 1) return detail::call(body, int64_t{0}, n, 0);
  detail::on_team(team, [&](int thread, int threads) {
    const int64_t sharers = std::min<int64_t>(std::min(threads, most), n);
    if (thread < sharers) detail::call(body, n * thread / sharers, n * (thread + 1) / sharers, thread);
  });
}

}  // namespace mx::cpu
