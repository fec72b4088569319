// SPDX-License-Identifier: Apache-2.0
#include "event_log.hpp"

#include <chrono>

namespace mx::storage {

void EventLog::listen(size_t capacity) noexcept {
  const Guard lock(mutex_);
  capacity_ = capacity;
  on_.store(capacity > 0, std::memory_order_relaxed);
}

void EventLog::add(MemoryEvent event) noexcept {
  const Guard lock(mutex_);
  if (capacity_ == 0) return;
  event.time = std::chrono::duration_cast<std::chrono::nanoseconds>(
                   std::chrono::steady_clock::now().time_since_epoch())
                   .count();
  if (events_.size() < capacity_) {
    try {
      events_.push_back(event);
      return;
    } catch (...) {  // no memory: counted below
    }
  }
  ++dropped_;
}

std::vector<MemoryEvent> EventLog::events() const {
  const Guard lock(mutex_);
  return events_;
}

uint64_t EventLog::dropped() const noexcept {
  const Guard lock(mutex_);
  return dropped_;
}

void EventLog::clear() noexcept {
  const Guard lock(mutex_);
  events_.clear();
  dropped_ = 0;
}

}  // namespace mx::storage
