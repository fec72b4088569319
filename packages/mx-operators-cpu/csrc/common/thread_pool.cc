// SPDX-License-Identifier: Apache-2.0
#include "common/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace mx::vector {
namespace {

// Whether `done` becomes true while it pays to wait for it awake: sleeping and waking cost as much, and the next
// kernel, or the end of the last piece, is mostly nearer than that.
template <class Done>
bool soon(const Done& done) {
  constexpr auto kPatience = std::chrono::microseconds(20);
  const auto end = std::chrono::steady_clock::now() + kPatience;
  do {
    for (int i = 0; i < 16; ++i) {
      if (done()) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  } while (std::chrono::steady_clock::now() < end);
  return done();
}

class Pool {
 public:
  // False when another kernel is using the helpers.
  bool run(uint32_t threads, int64_t n, int64_t grain, RangeBody body, void* context) {
    std::unique_lock<std::mutex> turn(turn_, std::try_to_lock);
    if (!turn.owns_lock()) return false;
    const int64_t pieces = (n + grain - 1) / grain;
    const auto helpers =
        grow(static_cast<uint32_t>(std::min<int64_t>(threads, pieces)) - 1);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      n_ = n;
      grain_ = grain;
      body_ = body;
      context_ = context;
      next_.store(0, std::memory_order_relaxed);
      invited_ = helpers;
      job_.fetch_add(1, std::memory_order_relaxed);
    }
    if (helpers == 1) {
      wake_.notify_one();
    } else if (helpers > 1) {
      wake_.notify_all();
    }
    work();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      invited_ = 0;  // who has not come by now is not needed
    }
    const auto all_done = [this] { return working_.load(std::memory_order_acquire) == 0; };
    soon(all_done);
    std::unique_lock<std::mutex> lock(mutex_);
    idle_.wait(lock, all_done);
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
    return true;
  }

 private:
  uint32_t grow(uint32_t wanted) {
    const uint32_t most = std::max(1u, std::thread::hardware_concurrency()) - 1;
    wanted = std::min(wanted, most);
    try {
      for (; threads_ < wanted; ++threads_) std::thread([this] { serve(); }).detach();
    } catch (const std::system_error&) {  // no more threads to be had: fewer help
    }
    return std::min(wanted, threads_);
  }

  void serve() {
    uint64_t seen = 0;
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      const auto another = [&] { return job_.load(std::memory_order_relaxed) != seen; };
      wake_.wait(lock, [&] { return invited_ > 0 && another(); });
      seen = job_.load(std::memory_order_relaxed);
      --invited_;
      working_.fetch_add(1, std::memory_order_relaxed);
      lock.unlock();
      work();
      if (working_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        std::lock_guard<std::mutex> notice(mutex_);
        idle_.notify_one();
      }
      soon(another);
      lock.lock();
    }
  }

  void work() {
    for (;;) {
      const int64_t begin = next_.fetch_add(grain_, std::memory_order_relaxed);
      if (begin >= n_) return;
      try {
        body_(context_, begin, std::min(n_, begin + grain_));
      } catch (...) {
        std::lock_guard<std::mutex> lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
      }
    }
  }

  std::mutex turn_;  // held by the kernel that has the helpers
  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  uint32_t threads_ = 0;                 // guarded by turn_
  // The rest changes under mutex_, and is constant while working; these two are also looked at without it.
  std::atomic<uint64_t> job_{0};
  std::atomic<uint32_t> working_{0};
  uint32_t invited_ = 0;
  int64_t n_ = 0, grain_ = 1;
  RangeBody body_ = nullptr;
  void* context_ = nullptr;
  std::exception_ptr failure_;
  std::atomic<int64_t> next_{0};
};

// Leaked: helpers outlive static destruction.  A forked child starts a pool of its own, since it
// has none of the parent's threads.
std::atomic<Pool*> current{nullptr};

Pool& pool() {
  static const bool registered = [] {
    current.store(new Pool);
    pthread_atfork(nullptr, nullptr, [] { current.store(new Pool); });
    return true;
  }();
  static_cast<void>(registered);
  return *current.load(std::memory_order_acquire);
}

}  // namespace

void parallel_for(uint32_t threads, int64_t n, int64_t grain, RangeBody body, void* context) {
  if (!pool().run(threads, n, grain, body, context)) body(context, 0, n);
}

}  // namespace mx::vector
