// SPDX-License-Identifier: Apache-2.0
//
// One pushed operation and its places in the queues of its variables.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "mx_core/engine.h"
#include "poison.hpp"

namespace mx::engine {

using Operator = ::mx_operator;
struct Block;
struct InFlight;
class Stream;
class Waiter;

// An operation's claim to one variable; part of its block.
struct Entry {
  mx_variable* variable = nullptr;
  Block* block = nullptr;
  Entry* next = nullptr;  // in the variable's queue, guarded by the variable's lock
  bool write = false;
};

enum class BlockKind : uint8_t {
  operation,
  wait,     // granted on behalf of a thread that waits; never executed, never counted as a write
  deletion  // the end of a variable; granted nothing
};

struct Block {
  static constexpr uint32_t kInlineEntries = 4;

  Block* next = nullptr;  // in a ready list, a task queue or the free list
  Block* child = nullptr;    // in a task queue
  Block* sibling = nullptr;  // in a task queue
  uint64_t sequence = 0;     // in a task queue

  std::atomic<uint32_t> ungranted{0};  // entries still queued at their variables
  BlockKind kind = BlockKind::operation;
  uint32_t flags = 0;
  mx_context context{MX_CPU, 0};
  int32_t property = MX_FN_NORMAL;
  int32_t priority = 0;
  const char* name = nullptr;
  const char* origin = nullptr;
  mx_run_fn run = nullptr;
  mx_async_fn run_async = nullptr;
  void* argument = nullptr;
  void (*destroy)(void*) = nullptr;
  uint64_t bulk = 0;      // the bulk this is part of; 0: none
  Block* rest = nullptr;  // of the bulk, to be run after this, linked by `next`
  Operator* reusable = nullptr;  // the operator this is a push of; a reference
  mx_variable* deletes = nullptr;  // of a deletion: the variable that ends

  Stream* stream = nullptr;  // of the device it runs on; NULL on the host
  InFlight* in_flight = nullptr;  // from its launch on a device on; a reference

  // An asynchronous operation is finished by the later of two: its body returns, it is completed.
  std::atomic<uint32_t> unfinished_parts{0};
  mx_failure* async_failure = nullptr;  // set by the completion
  uint32_t forks = 0;                   // Frame::forks() when its body began

  Waiter* pusher = nullptr;          // woken instead of dispatching (naive engine, waits)
  Waiter* completion = nullptr;      // woken when finished (naive engine)
  mx_failure** report = nullptr;     // where a naive push wants its failure
  int64_t pushed = 0, started = 0;   // nanoseconds; only while a profiler listens
  uint32_t thread = 0;               // the executing one's number; the same

  uint32_t n_entries = 0;
  uint32_t n_reads = 0;  // the first n_reads entries read, the others write
  Entry* entries = nullptr;
  Entry inline_entries[kInlineEntries];
};

// Blocks in the order they became ready; owned by the thread that made them so.
class ReadyList {
 public:
  void push(Block* block) noexcept {
    block->next = nullptr;
    *(head_ == nullptr ? &head_ : &tail_->next) = block;
    tail_ = block;
  }
  Block* pop() noexcept {
    Block* block = head_;
    if (block != nullptr) head_ = block->next;
    return block;
  }
  bool empty() const noexcept { return head_ == nullptr; }

 private:
  Block* head_ = nullptr;
  Block* tail_ = nullptr;
};

// Memory of blocks: a cache per thread, exchanged in batches through one shared list, because as
// a rule one thread allocates and another frees.
Block* allocate_block(uint32_t n_entries);  // throws std::bad_alloc
void free_block(Block* block) noexcept;
// The block of an operation, with an entry per variable that has no place yet.  Throws std::bad_alloc.
Block* make_block(const mx_operation& operation);
// Held across fork(), so that the child never finds the shared list locked.
void lock_block_pool() noexcept;
void unlock_block_pool() noexcept;

}  // namespace mx::engine
