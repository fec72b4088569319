// SPDX-License-Identifier: Apache-2.0
#include "block.hpp"

#include <new>

#include "mx_core/spin.hpp"

namespace mx::engine {
namespace {

constexpr uint32_t kBatch = 64;

struct Chain {  // a singly linked list of free blocks; batches are linked through `child`
  Block* head = nullptr;
  uint32_t size = 0;
};

struct SharedList {
  SpinLock lock;
  Block* batches = nullptr;  // guarded by lock: each of kBatch blocks
};

SharedList& shared_list() {
  // Never destroyed: threads may end after static destruction.
  alignas(SharedList) static unsigned char memory[sizeof(SharedList)];
  static auto* list = new (memory) SharedList;
  return *list;
}

void give(Block* batch) noexcept {
  SharedList& shared = shared_list();
  shared.lock.lock();
  batch->child = shared.batches;
  shared.batches = batch;
  shared.lock.unlock();
}

Block* take() noexcept {
  SharedList& shared = shared_list();
  shared.lock.lock();
  Block* batch = shared.batches;
  if (batch != nullptr) shared.batches = batch->child;
  shared.lock.unlock();
  return batch;
}

// Two chains, so that a thread that alternates at a batch's border does not exchange every time.
struct ThreadCache {
  Chain current, reserve;
  bool ended = false;

  ~ThreadCache() {
    ended = true;
    if (Block* batch = std::exchange(reserve, {}).head) give(batch);
    for (Block* block = std::exchange(current, {}).head; block != nullptr;) {
      delete std::exchange(block, block->next);
    }
  }
};

ThreadCache& thread_cache() {
  thread_local ThreadCache cache;
  return cache;
}

}  // namespace

Block* allocate_block(uint32_t n_entries) {
  ThreadCache& cache = thread_cache();
  // A destructor of another thread-local object may get here when the cache has ended: what is in the
  // shared list then would have two owners.
  if (cache.current.head == nullptr && !cache.ended) {
    if (cache.reserve.head != nullptr) {
      cache.current = std::exchange(cache.reserve, Chain{});
    } else if (Block* batch = take()) {
      cache.current = {batch, kBatch};
    }
  }
  Block* block = cache.current.head;
  if (block != nullptr) {
    cache.current.head = block->next;
    --cache.current.size;
  } else {
    block = new Block;
  }
  block->n_entries = n_entries;
  block->entries = block->inline_entries;
  if (n_entries > Block::kInlineEntries) {
    block->entries = new (std::nothrow) Entry[n_entries];
    if (block->entries == nullptr) {
      block->n_entries = 0;
      block->entries = block->inline_entries;
      free_block(block);
      throw std::bad_alloc();
    }
  }
  return block;
}

void free_block(Block* block) noexcept {
  if (block->entries != block->inline_entries) delete[] block->entries;
  ThreadCache& cache = thread_cache();
  if (cache.ended) {  // a destructor of another thread-local object got here
    delete block;
    return;
  }
  if (cache.current.size == kBatch) {
    if (cache.reserve.head != nullptr) give(cache.reserve.head);
    cache.reserve = std::exchange(cache.current, Chain{});
  }
  block->next = cache.current.head;
  cache.current.head = block;
  ++cache.current.size;
}

void lock_block_pool() noexcept { shared_list().lock.lock(); }
void unlock_block_pool() noexcept { shared_list().lock.unlock(); }

Block* make_block(const mx_operation& operation) {
  const uint32_t n = operation.n_reads + operation.n_writes;
  Block* block = allocate_block(n);
  block->kind = BlockKind::operation;
  block->flags = operation.flags;
  block->context = operation.context;
  block->property = operation.property;
  block->priority = operation.priority;
  block->name = operation.name;
  block->origin = operation.origin;
  block->run = operation.run;
  block->run_async = operation.run_async;
  block->argument = operation.argument;
  block->destroy = operation.destroy;
  block->reusable = nullptr;
  block->bulk = 0;
  block->rest = nullptr;
  block->stream = nullptr;
  block->in_flight = nullptr;
  block->pusher = block->completion = nullptr;
  block->report = nullptr;
  block->pushed = 0;
  block->n_reads = operation.n_reads;
  for (uint32_t i = 0; i < n; ++i) {
    const bool write = i >= operation.n_reads;
    mx_variable* variable =
        write ? operation.writes[i - operation.n_reads] : operation.reads[i];
    block->entries[i] = {variable, block, nullptr, write};
  }
  return block;
}

}  // namespace mx::engine
