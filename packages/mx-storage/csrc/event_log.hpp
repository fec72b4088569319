// SPDX-License-Identifier: Apache-2.0
//
// What happened to memory while somebody listens: every allocation and every release.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "mx_core/abi.h"
#include "registry.hpp"

namespace mx::storage {

struct MemoryEvent {
  int64_t time;  // nanoseconds of the monotonic clock
  mx_context context;
  int64_t bytes;        // negative: given back
  uint64_t in_use;      // of the context, afterwards
  uint64_t pooled;      // likewise
  const char* tag;      // NULL for none, and for releases
};

class EventLog {
 public:
  EventLog() = default;
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  // Without a listener an allocation pays for this load alone.
  bool on() const noexcept { return on_.load(std::memory_order_relaxed); }
  // Keeps at most `capacity` events, what comes later is only counted; 0 ends it.  Events stay.
  void listen(size_t capacity) noexcept;
  void add(MemoryEvent event) noexcept;
  std::vector<MemoryEvent> events() const;
  uint64_t dropped() const noexcept;
  void clear() noexcept;

 private:
  std::atomic<bool> on_{false};
  mutable Mutex mutex_;  // guards what follows
  size_t capacity_ = 0;
  uint64_t dropped_ = 0;
  std::vector<MemoryEvent> events_;
};

}  // namespace mx::storage
