// SPDX-License-Identifier: Apache-2.0
//
// A variable: who uses it now, and who waits for it in which order.
//
// Entries that were granted are not in the queue.  Readers are granted together; a writer is
// granted alone.  The head of a non-empty queue is blocked by what is granted, so a new entry is
// granted at once only when the queue is empty.
#pragma once

#include <cstdint>

#include "block.h"
#include "spin_lock.h"

struct mx_variable {
  mx::engine::SpinLock lock;  // guards everything below
  bool writing = false;       // a write is granted
  bool deleted = false;       // freed when nobody pins it any more
  uint32_t reading = 0;       // reads that are granted
  uint32_t pins = 0;          // threads that wait and will come back to the variable
  uint64_t version = 0;       // finished writes
  mx::engine::Entry* head = nullptr;
  mx::engine::Entry* tail = nullptr;
  // Written under the lock by the holder of the write grant; read without it under any grant.
  mx::engine::Poison* poison = nullptr;

  // All with the lock held.
  bool idle(bool for_write) const noexcept {
    return head == nullptr && !writing && (!for_write || reading == 0);
  }
  // Grants the entry or queues it; returns whether it was granted.
  bool append(mx::engine::Entry* entry) noexcept {
    if (idle(entry->write)) {
      grant(entry->write);
      return true;
    }
    entry->next = nullptr;
    *(head == nullptr ? &head : &tail->next) = entry;
    tail = entry;
    return false;
  }
  // Gives a grant back.
  void give_back(bool write) noexcept {
    if (write) {
      writing = false;
    } else {
      --reading;
    }
  }
  // Grants whatever can be granted now; blocks that wait for nothing more go to `ready`.
  void advance(mx::engine::ReadyList& ready) noexcept;
  // Takes a queued entry out; false when it is not queued (granted already).
  bool remove(mx::engine::Entry* entry) noexcept;

 private:
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

void free_variable(Variable* variable) noexcept;
// Ends a pin; frees a variable that was deleted meanwhile.
void unpin(Variable* variable) noexcept;

}  // namespace mx::engine
