// SPDX-License-Identifier: Apache-2.0
#include "profile.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

namespace mx::engine {

uint32_t thread_number() noexcept {
  static std::atomic<uint32_t> last{0};
  thread_local const uint32_t number = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return number;
}

void Profile::set_sink(mx_engine_sink sink, void* argument) noexcept {
  std::unique_lock<std::shared_mutex> lock(mutex_);
  sink_ = sink;
  argument_ = argument;
  on_.store(sink != nullptr, std::memory_order_relaxed);
}

void Profile::report(const Block& block, bool failed) noexcept {
  // Pushed before the profiler listened: its times are not known.
  if (block.pushed == 0) return;
  std::shared_lock<std::shared_mutex> lock(mutex_);
  if (sink_ == nullptr) return;
  mx_engine_event event{};
  event.size = sizeof event;
  event.thread = block.thread;
  event.name = block.name;
  event.context = block.context;
  event.pushed = block.pushed;
  event.started = block.started;
  event.finished = now_ns();
  event.property = block.property;
  event.failed = failed ? 1 : 0;
  sink_(argument_, &event);
}

void Profile::report_part(const mx_engine_event& part) noexcept {
  mx_engine_event event{};
  std::memcpy(&event, &part, std::min<size_t>(part.size, sizeof event));  // callers may be older
  event.size = sizeof event;
  event.thread = thread_number();
  std::shared_lock<std::shared_mutex> lock(mutex_);
  if (sink_ != nullptr) sink_(argument_, &event);
}

}  // namespace mx::engine
