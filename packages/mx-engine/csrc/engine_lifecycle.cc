// SPDX-License-Identifier: Apache-2.0
//
// Stop, shut-down, fork, the end of an engine.
#include <algorithm>

#include "engine.h"
#include "frame.h"
#include "intern.h"

namespace mx::engine {

void Engine::release() noexcept {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  // After the shut-down threads may still be on their way: the engine goes with the process.
  if (state_.load(std::memory_order_acquire) == shut_down) return;
  if (WorkerPool::current() == nullptr && !Frame::any()) {
    destroy();
    return;
  }
  try {  // a thread cannot wait for itself
    std::thread([this] { destroy(); }).detach();
  } catch (...) {
    state_.store(shut_down, std::memory_order_release);
  }
}

void Engine::destroy() noexcept {
  stop();
  while (completers_.load(std::memory_order_acquire) != 0) std::this_thread::yield();
  delete this;
}

void Engine::stop() noexcept {
  if (Frame::any() || state_.load(std::memory_order_acquire) == shut_down) return;
  drain(-1);
  lanes_.stop();
}

void Engine::notify_shutdown() noexcept {
  state_.store(shut_down, std::memory_order_seq_cst);
  lanes_.abandon();
}

int Engine::set_workers(int n) noexcept {
  if (options_.naive) return 0;
  lanes_.set_compute_threads(std::clamp(n, 1, 1024));
  return workers();
}

bool Engine::try_close_for_fork(bool force) noexcept {
  int expected = running;
  if (!state_.compare_exchange_strong(expected, forking, std::memory_order_seq_cst)) {
    return expected == shut_down;
  }
  if (pending_.load(std::memory_order_seq_cst) != 0 && !force) {
    state_.store(running, std::memory_order_seq_cst);
    return false;
  }
  lanes_.lock_for_fork();
  failures_.lock();
  quiet_mutex_.lock();
  lock_block_pool();
  lock_interned();
  return true;
}

void Engine::open_after_fork(bool child) noexcept {
  if (state_.load(std::memory_order_acquire) != forking) return;
  unlock_interned();
  unlock_block_pool();
  quiet_mutex_.unlock();
  failures_.unlock();
  if (child) {
    pending_.store(Frame::depth(), std::memory_order_seq_cst);
    quiet_waiters_.store(0, std::memory_order_seq_cst);
    completers_.store(0, std::memory_order_relaxed);
  }
  lanes_.unlock_after_fork(child);
  state_.store(running, std::memory_order_seq_cst);
}

}  // namespace mx::engine
