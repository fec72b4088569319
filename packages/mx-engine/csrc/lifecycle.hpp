// SPDX-License-Identifier: Apache-2.0
//
// How an engine is shared, stopped, closed and ended, and what becomes of it at an exit and a fork.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "waiting.hpp"

namespace mx::engine {

class Engine;

// Threads: any.
class Lifecycle {
 public:
  Lifecycle(Engine* engine, Admission& admission, Variables& variables, Completion& completion,
            Scheduler& scheduler, Waiting& waiting, Profile& profile, Monitor* monitor);
  Lifecycle(const Lifecycle&) = delete;
  Lifecycle& operator=(const Lifecycle&) = delete;

  void retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  // Whether the one who asks is the only one left.
  bool last_user() const noexcept { return references_.load(std::memory_order_acquire) == 1; }
  // The last release drains, joins and frees the engine, except after notify_shutdown, when it is
  // left to the end of the process.  `blocks`: the caller waits for that end.
  void release(bool blocks = true) noexcept;
  // Calls release(object) when the engine ends; for what must live as long as it does.
  void keep(void* object, void (*release)(void*));

  // Waits for what is pending and ends the threads; whether that was done in time.
  bool stop(int64_t timeout_ns = -1) noexcept;
  // Nothing is pushed any more, and the threads end after what they run now.  What has not begun is dropped: what it
  // would have written fails.
  void notify_shutdown() noexcept;
  // Refuses pushes from outside of operations from now on, then waits for what is pending.  Whether
  // that finished within the time.
  bool close(int64_t timeout_ns) noexcept;
  // Once closed and quiet: the calling thread, which runs the handlers of the exit, may push again;
  // what it pushes has finished when the push returns.
  void serve_exit() noexcept { admission_.serve_exit(); }
  // Ends such a push.
  void finish_before_exit() noexcept;

  // Around fork(), on the forking thread: see Admission.
  bool hold_for_fork() noexcept { return admission_.hold_for_fork(); }
  bool try_close_for_fork(bool force) noexcept { return admission_.try_close_for_fork(force); }
  void open_after_fork() noexcept { admission_.open_after_fork(); }

 private:
  void destroy() noexcept;
  // Forks (fork.cc).
  void enlist();
  void delist() noexcept;
  void lock_for_fork() noexcept;
  void unlock_after_fork(bool child) noexcept;
  static void before_fork() noexcept;
  static void after_fork(bool child) noexcept;
  // Whether no engine that was shut down computes on; never blocks.
  static bool all_quiet() noexcept;

  Engine* const engine_;  // which this is a part of
  Admission& admission_;
  Variables& variables_;
  Completion& completion_;
  Scheduler& scheduler_;
  Waiting& waiting_;
  Profile& profile_;
  Monitor* const monitor_;
  std::atomic<uint32_t> references_{1};
  struct Kept {
    void* object;
    void (*release)(void*);
  };
  std::mutex kept_mutex_;
  std::vector<Kept> kept_;  // guarded by kept_mutex_
};

}  // namespace mx::engine
