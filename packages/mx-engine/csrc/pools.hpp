// SPDX-License-Identifier: Apache-2.0
//
// Which pool runs what: per device a pool for compute, one for copies and one for prioritised
// operations; one Python lane for the process.  Pools and their threads come into being with the
// first operation that needs them.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "worker_pool.hpp"

namespace mx::engine {

struct PoolLimits {
  int compute = 1;   // threads per device
  int priority = 4;  // threads per device for prioritised operations
  int copy = 2;      // threads per device for copies
  int python = 1;
  int launch = 1;  // threads per accelerator that launch what could not be launched inline
};

class Pools {
 public:
  Pools(Runner& runner, PoolLimits limits, bool per_device);

  // The pool for the operation; NULL when memory is exhausted.
  WorkerPool* find(const Block& block) noexcept;

  int compute_threads() const noexcept { return compute_threads_.load(std::memory_order_relaxed); }
  void set_compute_threads(int n) noexcept;

  bool stop(std::chrono::steady_clock::time_point deadline) noexcept;
  void running(std::vector<Running>& found);
  // Whether a thread runs native code now.  Never blocks; says yes while threads come and go.
  bool computing() noexcept;
  // Those that come into being later are abandoned as well.
  void abandon() noexcept;
  // Without a lock while the action runs.
  template <class Action>
  void each(Action action) {
    for (size_t i = 0; WorkerPool* pool = at(i); ++i) action(*pool);
  }
  void lock_for_fork() noexcept;
  void unlock_after_fork(bool child) noexcept;

 private:
  enum Kind : uint8_t { compute, priority, copy, python };
  struct DevicePool {
    DevicePool(Runner& runner, int limit, Kind lane_kind, mx_context device)
        : pool(runner, limit), kind(lane_kind), context(device) {}
    WorkerPool pool;
    const Kind kind;
    const mx_context context;
  };
  static constexpr int kFastDevices = 8;

  static Kind kind_of(const Block& block) noexcept;
  int limit_of(Kind kind, const mx_context& context) const noexcept;
  WorkerPool* at(size_t i) noexcept;  // NULL after the last
  WorkerPool* find_slowly(Kind kind, mx_context context) noexcept;

  Runner& runner_;
  const PoolLimits limits_;
  const bool per_device_;
  std::atomic<int> compute_threads_;
  std::array<std::atomic<WorkerPool*>, kFastDevices> host_compute_{};  // by cpu id: no lock
  std::atomic<WorkerPool*> python_{nullptr};
  std::mutex mutex_;                          // guards pools_
  std::vector<std::unique_ptr<DevicePool>> pools_;  // only ever grows
  bool abandoned_ = false;                          // guarded by mutex_
};

}  // namespace mx::engine
