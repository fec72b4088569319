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
  // all.  `holds_back`: whether pushing threads are held back when they are far ahead,
  // and not only when somebody waits for everything.
  Admission(void (*sleep)() noexcept, bool holds_back) noexcept;
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  // Counts an operation as pending, unless nothing may be pushed any more.  Blocks while another
  // thread forks.
  int32_t enter(bool deletion, mx_error* error) noexcept;
  void leave() noexcept;

  // Back-pressure.  Whether it is time to look whether the calling thread is `ahead`.
  bool due() noexcept { return spent(credit().left); }
  bool due_to_read() noexcept { return spent(credit().reads); }
  // Whether more is pending than is done in kAhead, or somebody waits for everything: the thread should then
  // `hold_back` before it enters, with nothing held back of its own.  An operation that pushes never is.  A thread that
  // only reads adds nothing to what is pending: it is held for those who wait for everything alone.
  bool ahead(bool pushes) noexcept;
  // Blocks until less is pending, at most kLongestHold.
  void hold_back(bool pushes) noexcept;

  uint64_t pending() const noexcept { return pending_of(counts_.load(std::memory_order_acquire)); }
  // Blocks until nothing is pending, were it for a moment after the call; whether that came about in time.
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

  // Takes a hold for a fork back, whosever it is.
  void reopen() noexcept;
  // Whether the calling thread may push in a state.
  bool admits(int state, bool deletion) const noexcept;

  using Clock = std::chrono::steady_clock;

  // A thread may push so much before it is looked at whether it is ahead.
  static constexpr uint32_t kLook = 64;
  static constexpr uint32_t kReads = 4;  // the same of reads, one of which may take as long as many pushes
  // So much may be pending: whatever is known of the operations; where nothing is known; in any case.
  static constexpr uint32_t kLeast = 32, kUnknown = 256, kMost = 2048;
  static constexpr uint32_t kGrowth = 8;  // more may be pending for each operation that has finished
  static constexpr auto kAhead = std::chrono::seconds(1);        // so much work may be pending
  static constexpr auto kWindow = std::chrono::milliseconds(100);  // over which finished operations are counted
  static constexpr auto kLongestHold = std::chrono::milliseconds(100);  // how long Ctrl-C may wait
  // Looks, while somebody waits for everything, before a thread is held for that alone.
  static constexpr uint32_t kSpareLooks = 8;
  // Holds in which nothing got less: so many let one operation through each, the next ones twice as much each.
  static constexpr uint32_t kPatience = 10, kMostDoubled = 11;

  // What one thread may do, and what it has seen of the engine that it pushed to last.
  struct Credit {
    uint32_t left = kLook;    // operations before the next look
    uint32_t reads = kReads;  // the same of reads
    uint32_t stalls = 0;      // holds in a row in which nothing got less
    uint32_t spare = kSpareLooks;
    uint32_t last_left = 0;   // what was pending at the end of the last hold
    uint64_t engine = 0;      // whose `number_`
    Clock::time_point since;  // begin of the window, and what was then:
    uint32_t finished = 0;
    uint32_t pending = 0;
    uint32_t base = kUnknown;  // how much might be pending
  };
  void begin_window(Credit& mine, Clock::time_point now, uint64_t counts, uint32_t base) const noexcept;
  // Whether the thread is to be held because somebody waits for everything.
  bool asked(const Credit& mine) const noexcept {
    return mine.spare == 0 && quiet_waiters_.load(std::memory_order_relaxed) != 0;
  }
  // How much may be pending, after what the thread has seen.
  static uint32_t most(const Credit& mine, Clock::time_point now, uint64_t counts) noexcept;
  static Credit& credit() noexcept;
  static bool spent(uint32_t& left) noexcept {
    if (left <= 1) return true;
    --left;
    return false;
  }

  void (*const sleep_)() noexcept;
  const bool holds_back_;
  std::atomic<int> state_{accepting};
  int state_before_fork_ = accepting;              // meaningful while state_ is holding or forking
  std::atomic<std::thread::id> forking_thread_{};  // the same
  std::atomic<std::thread::id> exit_thread_{};
  // In its lower half what is pending, in the upper one how often anything has entered.
  static constexpr uint64_t kEntered = uint64_t{1} << 32;
  static uint32_t pending_of(uint64_t counts) noexcept { return static_cast<uint32_t>(counts); }
  static uint32_t entered_of(uint64_t counts) noexcept { return static_cast<uint32_t>(counts >> 32); }
  static uint32_t finished_of(uint64_t counts) noexcept {
    return entered_of(counts) - pending_of(counts);
  }
  const uint64_t number_;  // of the engine in the process
  alignas(64) std::atomic<uint64_t> counts_{0};
  alignas(64) std::atomic<int> quiet_waiters_{0};
  std::atomic<uint32_t> held_{0};  // threads in `hold_back`
  // With quiet_: for those who wait until nothing is pending.  Held across fork(), so that holds are whole in a child.
  std::mutex quiet_mutex_;
  std::condition_variable quiet_;
  // Guarded by quiet_mutex_, meaningful while somebody waits: how much had entered at the last moment in which nothing
  // was pending.  Who sees such a moment may tell of it late, when a wait has begun that it is too old for.
  uint32_t quiet_at_ = 0;
};

}  // namespace mx::engine
