// SPDX-License-Identifier: Apache-2.0
//
// Bulk scopes: a thread's small operations go to a worker together.
//
// An operation of a bulk takes its places at its variables when it is pushed, like any other; what
// is put off is only that it is handed to a worker.  So order, failures and what other threads see
// are the same as without a bulk.  Whoever waits hands over what all threads hold back.
#pragma once

#include <atomic>
#include <cstdint>

#include "block.hpp"

namespace mx::engine {

class Scheduler;

// What one thread holds back.
class Bulk {
 public:
  Bulk() = default;
  Bulk(const Bulk&) = delete;
  Bulk& operator=(const Bulk&) = delete;
  ~Bulk() { flush(); }

  static Bulk& of_this_thread() noexcept;

  bool open() const noexcept { return size_ > 1; }
  // Returns the former size.
  int32_t set_size(int32_t size) noexcept;
  // Before the operation takes its places: makes it part of the bulk, or ends the bulk when the
  // operation is of another kind.
  void join(Scheduler* scheduler, Block* block) noexcept;
  // Holds a ready operation of the bulk back; false when somebody waits.
  bool hold(Scheduler* scheduler, Block* block) noexcept;
  // After the operation took its places: ends the bulk when it is full.
  void count() noexcept;
  // Hands over what is held back.
  void flush() noexcept;

  // Hands over what all threads hold back for the scheduler.
  static void flush_all(Scheduler* scheduler) noexcept;

  // Held across fork().
  static void lock_for_fork() noexcept;
  static void unlock_after_fork(bool child) noexcept;

 private:
  struct Held;
  Held take() noexcept;
  static void hand_over(Held held) noexcept;

  int32_t size_ = 0;      // at most so many operations; no bulk scope: 0
  int32_t counted_ = 0;   // operations of this bulk so far
  uint64_t number_ = 0;   // of this bulk in the process; 0 between bulks
  mx_context context_{MX_CPU, 0};
  const Scheduler* pushed_to_ = nullptr;  // only compared

  // The rest is guarded by the lock of all bulks.
  Scheduler* scheduler_ = nullptr;  // alive, since it has pending what is held; NULL when nothing is
  ReadyList held_;
  bool parallel_ = false;     // among what is held
  Bulk* next_ = nullptr;      // in the list of those that hold something
};

}  // namespace mx::engine
