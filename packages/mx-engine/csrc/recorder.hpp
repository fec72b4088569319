// SPDX-License-Identifier: Apache-2.0
//
// A profiler sink that keeps what it is told.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "mx_core/engine.h"
#include "mx_core/spin.hpp"

namespace mx::engine {

class Recorder {
 public:
  // Keeps at most `capacity` events; what comes later is only counted.
  explicit Recorder(size_t capacity) : capacity_(capacity) {}
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder() { detach(); }

  // Listens to the engine, and no more to another one; holds a reference to it.
  void attach(const mx_engine_api* engine) noexcept;
  // After it returns nothing is recorded any more.  Blocks while an event is being recorded.
  void detach() noexcept;
  bool attached() const noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    return engine_ != nullptr;
  }

  // Copies of the events so far, in the order they began.  Throws std::bad_alloc.
  std::vector<mx_engine_event> events() const;
  void clear() noexcept;
  uint64_t dropped() const noexcept { return dropped_.load(std::memory_order_relaxed); }

 private:
  // Threads record into different shards, so that they hardly ever meet.
  struct alignas(64) Shard {
    mutable SpinLock lock;
    std::vector<mx_engine_event> events;  // guarded by lock
  };
  static constexpr uint32_t kShards = 16;

  void leave() noexcept;  // with mutex_
  void record(const mx_engine_event& event) noexcept;

  const size_t capacity_;
  mutable std::mutex mutex_;  // of those who attach and detach; never taken by those who record
  const mx_engine_api* engine_ = nullptr;  // guarded by mutex_
  std::atomic<size_t> kept_{0};
  std::atomic<uint64_t> dropped_{0};
  std::array<Shard, kShards> shards_;
};

}  // namespace mx::engine
