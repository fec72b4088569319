// SPDX-License-Identifier: Apache-2.0
#include "admission.hpp"

#include <algorithm>
#include <new>

#include "frame.hpp"
#include "mx_core/spin.hpp"

namespace mx::engine {
namespace {

std::atomic<uint64_t> last_number{0};

// Whether a number of entries is that of another moment or a later one; both wrap around.
bool reached(uint32_t entered, uint32_t other) noexcept { return static_cast<int32_t>(entered - other) >= 0; }

}  // namespace

Admission::Admission(void (*sleep)() noexcept, bool holds_back) noexcept
    : sleep_(sleep), holds_back_(holds_back), number_(last_number.fetch_add(1, std::memory_order_relaxed) + 1) {}

bool Admission::admits(int state, bool deletion) const noexcept {
  if (state == accepting) return true;
  if ((state == closing || state == holding) && (deletion || Frame::any())) return true;
  return state == closing && exiting();
}

int32_t Admission::enter(bool deletion, mx_error* error) noexcept {
  for (;;) {
    int state = state_.load(std::memory_order_relaxed);
    if (admits(state, deletion)) {
      // Ordered against try_close_for_fork: either it sees the count or this sees the state.
      counts_.fetch_add(kEntered + 1, std::memory_order_seq_cst);
      state = state_.load(std::memory_order_seq_cst);
      if (admits(state, deletion)) return MX_OK;
      leave();
    }
    if (state == closing || state == shut) {
      return set_error(error, MX_ERROR_SHUTDOWN, "the engine was shut down; nothing can be pushed");
    }
    if (forking_thread_.load(std::memory_order_acquire) == std::this_thread::get_id()) {
      return set_error(error, MX_ERROR, "nothing can be pushed by a thread that is about to fork");
    }
    sleep();
  }
}

void Admission::leave() noexcept {
  const uint64_t counts = counts_.fetch_sub(1, std::memory_order_seq_cst);
  if (pending_of(counts) == 1 && quiet_waiters_.load(std::memory_order_seq_cst) > 0) {
    std::lock_guard<std::mutex> lock(quiet_mutex_);
    // By the time a waiting thread looks there may be something again.
    if (reached(entered_of(counts), quiet_at_)) quiet_at_ = entered_of(counts);
    quiet_.notify_all();
  }
}

void Admission::sleep() const noexcept {
  if (sleep_ != nullptr) {
    sleep_();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

Admission::Credit& Admission::credit() noexcept {
  thread_local Credit mine;
  return mine;
}

void Admission::begin_window(Credit& mine, Clock::time_point now, uint64_t counts, uint32_t base) const noexcept {
  mine.engine = number_;
  mine.since = now;
  mine.finished = finished_of(counts);
  mine.pending = pending_of(counts);
  mine.base = base;
}

uint32_t Admission::most(const Credit& mine, Clock::time_point now, uint64_t counts) noexcept {
  const uint64_t done = finished_of(counts) - mine.finished;
  const auto elapsed = std::max<int64_t>(1, std::chrono::nanoseconds(now - mine.since).count());
  const uint64_t by_time = (done + 1) * uint64_t{std::chrono::nanoseconds(kAhead).count()} / uint64_t(elapsed);
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(std::min(by_time, mine.base + kGrowth * done), kLeast, kMost));
}

bool Admission::ahead(bool pushes) noexcept {
  Credit& mine = credit();
  if (pushes) mine.left = kLook; else mine.reads = kReads;
  if (Frame::any() || state_.load(std::memory_order_relaxed) != accepting) return false;
  const uint64_t counts = counts_.load(std::memory_order_acquire);
  const uint32_t now_pending = pending_of(counts);
  if (quiet_waiters_.load(std::memory_order_relaxed) == 0) {
    mine.spare = kSpareLooks;
  } else if (mine.spare > 0) {
    --mine.spare;
  }
  if (asked(mine) && now_pending != 0) return true;
  if (!holds_back_ || !pushes) return false;
  const auto now = Clock::now();
  if (mine.engine != number_ || now_pending < kLeast) {
    begin_window(mine, now, counts, kUnknown);
    return false;
  }
  uint32_t limit = most(mine, now, counts);
  if (now - mine.since >= kWindow) {
    // Unless something of what was pending at the beginning still is, there may have been nothing to do.
    const bool idle = finished_of(counts) - mine.finished >= mine.pending;
    if (idle) limit = std::max(limit, kUnknown);
    begin_window(mine, now, counts, limit);
  }
  if (now_pending > limit) return true;
  mine.left = std::clamp(limit - now_pending, 1u, kLook);
  return false;
}

void Admission::hold_back(bool pushes) noexcept {
  Credit& mine = credit();
  const uint32_t before = pending_of(counts_.load(std::memory_order_acquire));
  const auto end = Clock::now() + kLongestHold;
  held_.fetch_add(1, std::memory_order_relaxed);
  uint32_t granted = 0;  // operations before the next look
  while (granted == 0) {
    sleep();
    const uint64_t counts = counts_.load(std::memory_order_acquire);
    const uint32_t left = pending_of(counts), done = before - std::min(before, left);
    const auto now = Clock::now();
    const bool strict = asked(mine);
    if (strict) {
      // One operation for two that have finished: what is pending gets less, and nothing is in the end.
      const uint32_t share = done / (2 * held_.load(std::memory_order_relaxed));
      if (left == 0 || share > 0) granted = left == 0 ? kLook : std::min(share, kLook);
    } else if (!pushes) {
      granted = kLook;
    } else {
      // Half of what may be pending stays so, so that nobody runs out of work while this thread sleeps.
      const uint32_t limit = holds_back_ ? most(mine, now, counts) : kMost;
      if (left <= limit / 2) granted = std::min(limit - left, kLook);
    }
    if (granted != 0) {
      mine.stalls = 0;
    } else if (now >= end) {
      // What is pending may wait for this very thread: where nothing gets less it goes on, faster from time to time.
      const bool less = strict ? left < mine.last_left : done > 0;
      mine.stalls = less ? 0 : mine.stalls + 1;
      const uint32_t patience = strict ? 0 : kPatience;
      const uint32_t doubled = mine.stalls < patience ? 0 : std::min(mine.stalls - patience, kMostDoubled);
      granted = strict ? std::min(1u << doubled, kLook) : 1u << doubled;
    }
  }
  if (pushes) mine.left = granted; else mine.reads = std::max(1u, granted * kReads / kLook);
  mine.last_left = pending_of(counts_.load(std::memory_order_relaxed));
  held_.fetch_sub(1, std::memory_order_relaxed);
}

bool Admission::wait_until_quiet(std::chrono::steady_clock::time_point when) noexcept {
  thread_local SpinBudget spin;
  if (spin.spin_until([this] { return pending() == 0; })) return true;
  std::unique_lock<std::mutex> lock(quiet_mutex_);
  const bool first = quiet_waiters_.fetch_add(1, std::memory_order_seq_cst) == 0;
  const uint32_t entered = entered_of(counts_.load(std::memory_order_seq_cst));
  if (first) quiet_at_ = entered - 1;
  // A moment counts when all that has entered until now had finished then.
  const bool quiet = quiet_.wait_until(lock, when, [this, entered] {
    return reached(quiet_at_, entered) || pending_of(counts_.load(std::memory_order_seq_cst)) == 0;
  });
  quiet_waiters_.fetch_sub(1, std::memory_order_seq_cst);
  return quiet;
}

bool Admission::close(std::chrono::steady_clock::time_point when) noexcept {
  for (int expected = accepting; !state_.compare_exchange_strong(expected, closing); expected = accepting) {
    if (expected != forking && expected != holding) return true;  // closed before
    if (std::chrono::steady_clock::now() >= when) return false;
    sleep();
  }
  return true;
}

bool Admission::hold_for_fork() noexcept {
  const std::lock_guard<std::mutex> lock(quiet_mutex_);  // no other thread's fork() comes in between
  int before = accepting;
  while (!state_.compare_exchange_weak(before, holding, std::memory_order_seq_cst)) {
    if (before == shut || before == forking || before == holding) return false;
  }
  state_before_fork_ = before;
  forking_thread_.store(std::this_thread::get_id(), std::memory_order_release);
  return true;
}

bool Admission::try_close_for_fork(bool force) noexcept {
  const bool holds = forking_thread_.load(std::memory_order_acquire) == std::this_thread::get_id();
  if (!holds && !hold_for_fork()) return is_shut_down();
  int expected = holding;
  if (!state_.compare_exchange_strong(expected, forking, std::memory_order_seq_cst)) return expected == shut;
  if (pending_of(counts_.load(std::memory_order_seq_cst)) == 0 || force) return true;
  expected = forking;
  state_.compare_exchange_strong(expected, holding, std::memory_order_seq_cst);
  if (!holds) open_after_fork();
  return false;
}

void Admission::open_after_fork() noexcept {
  const std::lock_guard<std::mutex> lock(quiet_mutex_);  // as above
  if (forking_thread_.load(std::memory_order_acquire) == std::this_thread::get_id()) reopen();
}

// quiet_mutex_ is held.
void Admission::reopen() noexcept {
  forking_thread_.store({}, std::memory_order_release);
  for (int expected : {forking, holding}) {
    state_.compare_exchange_strong(expected, state_before_fork_, std::memory_order_seq_cst);
  }
}

void Admission::unlock_after_fork(bool child, uint32_t inside) noexcept {
  if (child) {
    counts_.store(inside, std::memory_order_seq_cst);
    quiet_waiters_.store(0, std::memory_order_seq_cst);
    held_.store(0, std::memory_order_relaxed);
    new (&quiet_) std::condition_variable;  // who waited for it is not here either
    // A thread that held pushes back, and that this fork could not wait for, does not exist here.
    if (forking_thread_.load(std::memory_order_relaxed) != std::this_thread::get_id()) reopen();
  }
  quiet_mutex_.unlock();
}

}  // namespace mx::engine
