// SPDX-License-Identifier: Apache-2.0
#include "pool.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace mx::vector {
namespace {

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
      ++job_;
    }
    if (helpers == 1) {
      wake_.notify_one();
    } else if (helpers > 1) {
      wake_.notify_all();
    }
    work();
    std::unique_lock<std::mutex> lock(mutex_);
    invited_ = 0;  // who has not come by now is not needed
    idle_.wait(lock, [this] { return working_ == 0; });
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
      wake_.wait(lock, [&] { return invited_ > 0 && job_ != seen; });
      seen = job_;
      --invited_;
      ++working_;
      lock.unlock();
      work();
      lock.lock();
      if (--working_ == 0) idle_.notify_one();
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
  uint64_t job_ = 0;                     // the rest is guarded by mutex_, and constant while working
  uint32_t invited_ = 0, working_ = 0;
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
