// SPDX-License-Identifier: Apache-2.0
#include "recorder.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

namespace mx::engine {

void Recorder::attach(const mx_engine_api* engine) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  leave();
  engine->retain(engine->self);
  engine_ = engine;
  engine->set_sink(
      engine->self,
      [](void* sink, const mx_engine_event* event) {
        static_cast<Recorder*>(sink)->record(*event);
      },
      this);
}

void Recorder::detach() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  leave();
}

void Recorder::leave() noexcept {
  const mx_engine_api* engine = std::exchange(engine_, nullptr);
  if (engine == nullptr) return;
  engine->set_sink(engine->self, nullptr, nullptr);
  engine->release(engine->self);
}

void Recorder::record(const mx_engine_event& event) noexcept {
  if (kept_.fetch_add(1, std::memory_order_relaxed) < capacity_) {
    Shard& shard = shards_[event.thread % kShards];
    const std::lock_guard<SpinLock> lock(shard.lock);
    try {
      mx_engine_event& kept = shard.events.emplace_back();
      std::memcpy(&kept, &event, std::min<size_t>(event.size, sizeof kept));  // engines may be older
      return;
    } catch (...) {  // no memory: counted below
    }
  }
  kept_.fetch_sub(1, std::memory_order_relaxed);
  dropped_.fetch_add(1, std::memory_order_relaxed);
}

std::vector<mx_engine_event> Recorder::events() const {
  std::vector<mx_engine_event> all;
  for (const Shard& shard : shards_) {
    const std::lock_guard<SpinLock> lock(shard.lock);
    all.insert(all.end(), shard.events.begin(), shard.events.end());
  }
  std::sort(all.begin(), all.end(), [](const mx_engine_event& a, const mx_engine_event& b) {
    return a.started < b.started;
  });
  return all;
}

void Recorder::clear() noexcept {
  for (Shard& shard : shards_) {
    std::vector<mx_engine_event> gone;
    const std::lock_guard<SpinLock> lock(shard.lock);
    gone.swap(shard.events);
    kept_.fetch_sub(gone.size(), std::memory_order_relaxed);
  }
  dropped_.store(0, std::memory_order_relaxed);
}

}  // namespace mx::engine
