// SPDX-License-Identifier: Apache-2.0
//
// Who may push now, and how much is pending.  Every operation enters before it takes its places and
// leaves when it has finished.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "mx_core/failure.hpp"

namespace mx::engine {

class Admission {
 public:
  // `sleep`: sleeps for a moment and gives away whatever others may need meanwhile, the GIL above
  // all.  `holds_back`: whether pushing threads are held back when they are far ahead.
  Admission(void (*sleep)() noexcept, bool holds_back) noexcept
      : sleep_(sleep), holds_back_(holds_back) {}
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  // Counts an operation as pending, unless nothing may be pushed any more.  Blocks while another
  // thread forks.
  int32_t enter(bool deletion, mx_error* error) noexcept;
  void leave() noexcept;

  // Back-pressure.  Whether the calling thread is far ahead, or somebody waits for everything: it
  // should then `hold_back` before it enters, with nothing held back of its own.
  bool ahead() noexcept;
  // Blocks until less is pending, at most kLongestHold; an operation that pushes is never held.
  void hold_back() noexcept;

  uint64_t pending() const noexcept { return pending_.load(std::memory_order_acquire); }
  // Blocks until nothing is pending; whether that came about in time.
  bool wait_until_quiet(std::chrono::steady_clock::time_point when) noexcept;

  // Only running operations push from now on.  Whether that was done in time; it is put off by a fork.
  bool close(std::chrono::steady_clock::time_point when) noexcept;
  // Once closed: the calling thread may push again, as long as it waits for what it pushes.
  void serve_exit() noexcept { exit_thread_.store(std::this_thread::get_id(), std::memory_order_release); }
  // Whether what the calling thread has pushed must be finished before it goes on.
  bool exiting() const noexcept {
    return state_.load(std::memory_order_relaxed) == closing &&
           exit_thread_.load(std::memory_order_acquire) == std::this_thread::get_id();
  }
  // Nothing is pushed any more.
  void shut_down() noexcept { state_.store(shut, std::memory_order_seq_cst); }
  bool is_shut_down() const noexcept { return state_.load(std::memory_order_acquire) == shut; }

  // Around fork(), on the forking thread.  `hold_for_fork` holds other threads' pushes back, but for
  // those of running operations, so that what is pending ends some time; false when another thread
  // forks.  `try_close_for_fork` succeeds when nothing is pending, or with `force`: nobody can push
  // then.  `open_after_fork` takes either back.
  bool hold_for_fork() noexcept;
  bool try_close_for_fork(bool force) noexcept;
  void open_after_fork() noexcept;

  // Inside fork() itself.  In the child `inside` operations are pending: those the thread is inside of.
  void lock_for_fork() noexcept { quiet_mutex_.lock(); }
  void unlock_after_fork(bool child, uint32_t inside) noexcept;

  void sleep() const noexcept;

 private:
  enum State : int { accepting, holding, forking, closing, shut };

  // Whether the calling thread may push in a state.
  bool admits(int state, bool deletion) const noexcept;

  // A thread may push so much before it is looked at whether it is ahead.
  static constexpr uint32_t kBurst = 2048;
  static constexpr auto kLongestHold = std::chrono::milliseconds(100);  // how long Ctrl-C may wait
  struct Credit {  // of one thread
    uint32_t left = kBurst;
    uint32_t stalls = 0;  // holds in a row in which nothing got less
  };
  static Credit& credit() noexcept;

  void (*const sleep_)() noexcept;
  const bool holds_back_;
  std::atomic<int> state_{accepting};
  int state_before_fork_ = accepting;             // meaningful while state_ is holding or forking
  std::atomic<std::thread::id> forking_thread_{};  // the same
  std::atomic<std::thread::id> exit_thread_{};
  alignas(64) std::atomic<uint64_t> pending_{0};
  alignas(64) std::atomic<int> quiet_waiters_{0};
  std::mutex quiet_mutex_;  // with quiet_: for those who wait until nothing is pending
  std::condition_variable quiet_;
};

inline bool Admission::ahead() noexcept {
  Credit& mine = credit();
  return --mine.left == 0 || quiet_waiters_.load(std::memory_order_relaxed) != 0;
}

}  // namespace mx::engine
