// SPDX-License-Identifier: Apache-2.0
//
// A variable: who uses it now, and who waits for it in which order.
//
// Entries that were granted are not in the queue.  Readers are granted together; a writer is
// granted alone.  The head of a non-empty queue is blocked by what is granted, so a new entry is
// granted at once only when the queue is empty.
//
// Variables that were joined are parts of a whole, another variable, which is used in their place from then on.
#pragma once

#include <atomic>
#include <cstdint>

#include "block.hpp"
#include "fork_lock.hpp"
#include "in_flight.hpp"

struct mx_variable {
  mx::engine::ForkLock lock;  // guards everything below
  bool writing = false;       // a write is granted
  uint8_t deleted : 1;        // freed when nobody pins it any more
  uint8_t dying : 1;          // deleted without a place in the queue: `deleter` runs when it is idle
  uint8_t orders_only : 1;    // stands for no memory: passes no failure on
  uint8_t noted : 1;          // by a stream, which pins it
  uint32_t reading = 0;       // reads that are granted
  uint32_t forks = 0;         // of the engine with losses, when the variable was last used; see Variables::lost
  uint32_t pins = 0;          // who will come back to the variable: threads that wait, a stream's notes
  uint32_t parts = 0;         // of a whole: those that have not ended; with the last of them it ends
  // What this one is a part of, for good, or NULL.  Written under the lock.
  std::atomic<mx_variable*> whole{nullptr};
  union {
    uint64_t version = 0;  // finished writes
    void* argument;        // of the deleter, once dying
  };
  mx::engine::Entry* head = nullptr;
  mx::engine::Entry* tail = nullptr;
  // Written under the lock by the holder of the write grant; read without it under any grant.
  mx::engine::Poison* poison = nullptr;
  // Launched on a device and not known to be done: the last write, and the reads since then.
  mx::engine::InFlight* in_flight_write = nullptr;
  mx::engine::InFlight::Reading* in_flight_reads = nullptr;
  union {
    void (*deleter)(void*) = nullptr;  // once dying
    mx::engine::Block* deletion;       // of a part, made when it was joined
  };

  mx_variable() noexcept : deleted(0), dying(0), orders_only(0), noted(0) {}

  // All with the lock held.
  bool idle(bool for_write) const noexcept { return head == nullptr && free(for_write, nullptr); }
  // Grants the entry or queues it; returns whether it was granted.
  bool append(mx::engine::Entry* entry) noexcept {
    if (head == nullptr && free(entry->write, entry->block)) {
      grant(entry->write);
      return true;
    }
    entry->next = nullptr;
    *(head == nullptr ? &head : &tail->next) = entry;
    tail = entry;
    return false;
  }
  // Grants a read to a thread if nothing is to be written before.
  bool read_if_idle() noexcept {
    if (!idle(false)) return false;
    grant(false);
    return true;
  }
  // Gives a grant back.
  void give_back(bool write) noexcept {
    if (write) {
      writing = false;
    } else {
      --reading;
    }
  }
  // Grants whatever can be granted now; blocks that wait for nothing more go to `ready`.  A wait whose turn has come
  // has ended then, and holds nothing unless it keeps what it is granted.
  void advance(mx::engine::ReadyList& ready) noexcept;
  bool may_die() const noexcept { return dying && idle(true); }
  // A launched operation gives its grant back and stays in flight.
  void leave_in_flight(mx::engine::InFlight* in_flight, const mx::engine::Entry* entry) noexcept;
  // It is complete.
  void complete(mx::engine::InFlight* in_flight, const mx::engine::Entry* entry) noexcept;
  // Takes a queued entry out; false when it is not queued (granted already).
  bool remove(mx::engine::Entry* entry) noexcept;

 private:
  // Whether what is granted and what is in flight leave room for an operation (NULL: a wait).
  bool free(bool write, const mx::engine::Block* block) const noexcept {
    if (writing || (write && reading > 0)) return false;
    return (in_flight_write == nullptr && (!write || in_flight_reads == nullptr)) ||
           ordered_by_device(write, block);
  }
  // Whether the block's device can order the block after what is in flight.
  bool ordered_by_device(bool write, const mx::engine::Block* block) const noexcept;
  void grant(bool write) noexcept {
    if (write) {
      writing = true;
    } else {
      ++reading;
    }
  }
};

namespace mx::engine {

using Variable = ::mx_variable;

// What is used in place of a variable: itself, or the whole that it is a part of.
inline Variable* whole_of(Variable* variable) noexcept {
  while (Variable* whole = variable->whole.load(std::memory_order_acquire)) variable = whole;
  return variable;
}

// Locks what is used in place of a variable, and keeps it from being joined.
class Locked {
 public:
  explicit Locked(Variable* variable) noexcept {
    for (;;) {
      variable_ = whole_of(variable);
      variable_->lock.lock();
      if (variable_->whole.load(std::memory_order_relaxed) == nullptr) return;
      variable_->lock.unlock();
    }
  }
  ~Locked() { variable_->lock.unlock(); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  Variable* operator->() const noexcept { return variable_; }
  Variable* get() const noexcept { return variable_; }

 private:
  Variable* variable_;
};

}  // namespace mx::engine
