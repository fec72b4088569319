// SPDX-License-Identifier: Apache-2.0
#include "pools.hpp"

#include "device.hpp"

namespace mx::engine {

Pools::Pools(Runner& runner, PoolLimits limits, bool per_device)
    : runner_(runner), limits_(limits), per_device_(per_device), compute_threads_(limits.compute) {}

Pools::Kind Pools::kind_of(const Block& block) noexcept {
  if ((block.flags & MX_PUSH_PYTHON) != 0) return python;
  switch (block.property) {
    case MX_FN_CPU_PRIORITIZED:
    case MX_FN_DEVICE_PRIORITIZED:
      return priority;
    case MX_FN_COPY_FROM_DEVICE:
    case MX_FN_COPY_TO_DEVICE:
      return mx_on_host(block.context) ? compute : copy;
    default:
      return compute;
  }
}

int Pools::limit_of(Kind kind, const mx_context& context) const noexcept {
  if ((kind == compute || kind == priority) && !mx_on_host(context)) return limits_.launch;
  switch (kind) {
    case priority: return limits_.priority;
    case copy: return limits_.copy;
    case python: return limits_.python;
    default: return compute_threads();
  }
}

WorkerPool* Pools::find(const Block& block) noexcept {
  const Kind kind = kind_of(block);
  if (kind == python) {
    WorkerPool* pool = python_.load(std::memory_order_acquire);
    return pool != nullptr ? pool : find_slowly(python, {MX_CPU, 0});
  }
  // Pinned and shared memory is the host's: its operations run where those of cpu(0) run.
  mx_context context = block.context;
  if (mx_on_host(context)) context = {MX_CPU, context.type == MX_CPU ? context.id : 0};
  if (!per_device_) context.id = 0;
  if (kind == compute && context.type == MX_CPU && context.id >= 0 && context.id < kFastDevices) {
    WorkerPool* pool = host_compute_[context.id].load(std::memory_order_acquire);
    if (pool != nullptr) return pool;
  }
  return find_slowly(kind, context);
}

WorkerPool* Pools::find_slowly(Kind kind, mx_context context) noexcept {
  try {
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto& lane : pools_) {
      if (lane->kind == kind && lane->context.type == context.type &&
          lane->context.id == context.id) {
        return &lane->pool;
      }
    }
    pools_.push_back(std::make_unique<DevicePool>(runner_, limit_of(kind, context), kind, context));
    WorkerPool* pool = &pools_.back()->pool;
    if (abandoned_) pool->abandon();
    if (kind == python) {
      python_.store(pool, std::memory_order_release);
    } else if (kind == compute && context.type == MX_CPU && context.id >= 0 &&
               context.id < kFastDevices) {
      host_compute_[context.id].store(pool, std::memory_order_release);
    }
    return pool;
  } catch (...) {
    return nullptr;
  }
}

void Pools::set_compute_threads(int n) noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  compute_threads_.store(n, std::memory_order_relaxed);
  for (auto& lane : pools_) {
    if (lane->kind == compute && mx_on_host(lane->context)) lane->pool.set_limit(n);
  }
}

WorkerPool* Pools::at(size_t i) noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  return i < pools_.size() ? &pools_[i]->pool : nullptr;
}

bool Pools::stop(std::chrono::steady_clock::time_point deadline) noexcept {
  // Running operations may ask for a pool, so the lock is not held while threads are joined.
  bool stopped = true;
  each([&](WorkerPool& pool) { stopped &= pool.stop(deadline); });
  return stopped;
}

void Pools::running(std::vector<Running>& found) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto& lane : pools_) lane->pool.running(found);
}

bool Pools::computing() noexcept {
  const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return true;
  for (auto& each : pools_) {
    if (each->kind != python && each->pool.busy()) return true;
  }
  return false;
}

void Pools::abandon() noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  abandoned_ = true;
  for (auto& lane : pools_) lane->pool.abandon();
}

void Pools::lock_for_fork() noexcept {
  mutex_.lock();
  for (auto& lane : pools_) lane->pool.lock_for_fork();
}

void Pools::unlock_after_fork(bool child) noexcept {
  for (auto& lane : pools_) lane->pool.unlock_after_fork(child);
  mutex_.unlock();
}

}  // namespace mx::engine
