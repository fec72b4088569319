// SPDX-License-Identifier: Apache-2.0
#include "admission.hpp"

#include <algorithm>

#include "frame.hpp"
#include "mx_core/spin.hpp"

namespace mx::engine {

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
      pending_.fetch_add(1, std::memory_order_seq_cst);
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
  if (pending_.fetch_sub(1, std::memory_order_seq_cst) == 1 &&
      quiet_waiters_.load(std::memory_order_seq_cst) > 0) {
    std::lock_guard<std::mutex> lock(quiet_mutex_);
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

void Admission::hold_back() noexcept {
  Credit& mine = credit();
  mine.left = kBurst;
  if (!holds_back_ || Frame::any() || state_.load(std::memory_order_relaxed) != accepting) return;
  const uint64_t before = pending();
  const auto end = std::chrono::steady_clock::now() + kLongestHold;
  // Half of the burst stays pending, so that nobody runs out of work while this thread sleeps.
  while (pending() > (quiet_waiters_.load(std::memory_order_relaxed) != 0 ? 0 : kBurst / 2)) {
    if (std::chrono::steady_clock::now() >= end) {
      // What is pending may wait for this very thread: where nothing gets less it goes on, faster
      // from time to time.
      mine.stalls = pending() < before ? 0 : std::min(mine.stalls + 1, 20u);
      mine.left = 1u << mine.stalls;
      return;
    }
    sleep();
  }
  mine.stalls = 0;
}

bool Admission::wait_until_quiet(std::chrono::steady_clock::time_point when) noexcept {
  thread_local SpinBudget spin;
  spin.spin_until([this] { return pending() == 0; });
  quiet_waiters_.fetch_add(1, std::memory_order_seq_cst);
  bool quiet = false;
  {
    std::unique_lock<std::mutex> lock(quiet_mutex_);
    quiet = quiet_.wait_until(lock, when, [this] { return pending_.load(std::memory_order_seq_cst) == 0; });
  }
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
  if (pending_.load(std::memory_order_seq_cst) == 0 || force) return true;
  expected = forking;
  state_.compare_exchange_strong(expected, holding, std::memory_order_seq_cst);
  if (!holds) open_after_fork();
  return false;
}

void Admission::open_after_fork() noexcept {
  if (forking_thread_.load(std::memory_order_acquire) != std::this_thread::get_id()) return;
  forking_thread_.store({}, std::memory_order_release);
  for (int expected : {forking, holding}) {
    state_.compare_exchange_strong(expected, state_before_fork_, std::memory_order_seq_cst);
  }
}

void Admission::unlock_after_fork(bool child, uint32_t inside) noexcept {
  if (child) {
    pending_.store(inside, std::memory_order_seq_cst);
    quiet_waiters_.store(0, std::memory_order_seq_cst);
  }
  quiet_mutex_.unlock();
}

}  // namespace mx::engine
