// SPDX-License-Identifier: Apache-2.0
#include "bulk.hpp"

#include <mutex>
#include <utility>

#include "mx_core/spin.hpp"
#include "scheduler.hpp"

namespace mx::engine {
namespace {

// One lock for the bulks of all threads: an engine may end while a thread looks for it.
SpinLock lock_of_all;
Bulk* holding = nullptr;  // guarded by lock_of_all
std::atomic<uint64_t> last_number{0};

bool joins(const Block& block) noexcept {
  return block.run != nullptr && block.stream == nullptr && block.property == MX_FN_NORMAL && block.priority == 0 &&
         (block.flags & MX_PUSH_PYTHON) == 0;
}

}  // namespace

// What was held, with the engine kept from ending until it is handed over.
struct Bulk::Held {
  Scheduler* scheduler = nullptr;
  ReadyList blocks;
  bool parallel = false;
};

Bulk& Bulk::of_this_thread() noexcept {
  static thread_local Bulk bulk;
  return bulk;
}

int32_t Bulk::set_size(int32_t size) noexcept {
  flush();
  return std::exchange(size_, size > 1 ? size : 0);
}

void Bulk::join(Scheduler* scheduler, Block* block) noexcept {
  if (!joins(*block)) {
    flush();
    return;
  }
  if (number_ != 0 && (pushed_to_ != scheduler || context_.type != block->context.type ||
                       context_.id != block->context.id)) {
    flush();
  }
  if (number_ == 0) {
    number_ = last_number.fetch_add(1, std::memory_order_relaxed) + 1;
    pushed_to_ = scheduler;
    context_ = block->context;
  }
  block->bulk = number_;
}

bool Bulk::hold(Scheduler* scheduler, Block* block) noexcept {
  const std::lock_guard<SpinLock> lock(lock_of_all);
  // Ordered by the lock against flush_all, which comes after somebody counts as waiting.
  if (scheduler->somebody_waits()) return false;
  if (scheduler_ == nullptr) {
    scheduler_ = scheduler;
    next_ = std::exchange(holding, this);
  }
  held_.push(block);
  parallel_ |= (block->flags & MX_PUSH_PARALLEL) != 0;
  return true;
}

void Bulk::count() noexcept {
  if (++counted_ >= size_) flush();
}

void Bulk::flush() noexcept {
  counted_ = 0;
  if (std::exchange(number_, 0) == 0) return;
  Held held;
  {
    const std::lock_guard<SpinLock> lock(lock_of_all);
    if (scheduler_ == nullptr) return;
    for (Bulk** at = &holding; *at != nullptr; at = &(*at)->next_) {
      if (*at != this) continue;
      *at = next_;
      break;
    }
    held = take();
  }
  hand_over(held);
}

void Bulk::flush_all(Scheduler* scheduler) noexcept {
  for (;;) {
    Held held;
    {
      const std::lock_guard<SpinLock> lock(lock_of_all);
      Bulk** at = &holding;
      while (*at != nullptr && (*at)->scheduler_ != scheduler) at = &(*at)->next_;
      Bulk* found = *at;
      if (found == nullptr) return;
      *at = found->next_;
      held = found->take();
    }
    hand_over(held);
  }
}

// The lock is held, and the bulk is not in the list any more.
Bulk::Held Bulk::take() noexcept {
  Held held{std::exchange(scheduler_, nullptr), std::exchange(held_, ReadyList()),
            std::exchange(parallel_, false)};
  held.scheduler->begin_hand_over();
  return held;
}

void Bulk::hand_over(Held held) noexcept {
  Block* first = held.blocks.pop();
  first->rest = held.blocks.pop();
  if (held.parallel) first->flags |= MX_PUSH_PARALLEL;
  held.scheduler->hand_over(first);
}

void Bulk::lock_for_fork() noexcept { lock_of_all.lock(); }

void Bulk::unlock_after_fork(bool child) noexcept {
  if (child) {  // what was held back is lost like everything else that was pending
    Bulk& own = of_this_thread();
    own.scheduler_ = nullptr;
    own.held_ = ReadyList();
    own.parallel_ = false;
    holding = nullptr;
  }
  lock_of_all.unlock();
}

}  // namespace mx::engine
