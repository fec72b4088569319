// SPDX-License-Identifier: Apache-2.0
//
// Where finished operations are reported while a profiler listens.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <shared_mutex>

#include "block.hpp"

namespace mx::engine {

inline int64_t now_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// A small number for the calling thread, the same for as long as it lives.
uint32_t thread_number() noexcept;

class Profile {
 public:
  bool on() const noexcept { return on_.load(std::memory_order_relaxed); }
  // After it returns the former sink is not called any more.
  void set_sink(mx_engine_sink sink, void* argument) noexcept;
  void report(const Block& block, bool failed) noexcept;
  // A part of an operation that the calling thread runs; its thread's number is filled in.
  void report_part(const mx_engine_event& part) noexcept;

 private:
  std::atomic<bool> on_{false};
  std::shared_mutex mutex_;  // guards the sink; shared while it is called
  mx_engine_sink sink_ = nullptr;
  void* argument_ = nullptr;
};

}  // namespace mx::engine
