// SPDX-License-Identifier: Apache-2.0
//
// Operations of a bulk on a worker: one after another, and with them those that become ready.
#include "bulk.hpp"
#include "scheduler.hpp"

namespace mx::engine {
namespace {

// What the calling worker will run after the operation it is inside of.
struct RunningBulk {
  Scheduler* scheduler;
  ReadyList todo;
  RunningBulk* outer;
};
thread_local RunningBulk* running_bulk = nullptr;

}  // namespace

void Scheduler::run_bulk(Block* block, uint32_t worker) {
  const uint64_t number = block->bulk;
  const bool parallel = (block->flags & MX_PUSH_PARALLEL) != 0;
  RunningBulk running{this, {}, running_bulk};
  Block* rest = std::exchange(block->rest, nullptr);
  running.todo.push(block);
  while (rest != nullptr) running.todo.push(std::exchange(rest, rest->next));
  running_bulk = &running;
  while (Block* next = running.todo.pop()) {
    ReadyList ready, others;
    execute(next, worker, ready);
    while (Block* found = ready.pop()) {
      const bool stays = found->kind == BlockKind::operation && found->bulk == number &&
                         (parallel || (found->flags & MX_PUSH_PARALLEL) == 0);
      (stays ? running.todo : others).push(found);
    }
    if (!others.empty()) dispatch(others);
  }
  running_bulk = running.outer;
}

// The operation the calling worker is inside of waits, perhaps for one that was to come after it.
void Scheduler::pass_bulk_on() {
  for (RunningBulk* bulk = running_bulk; bulk != nullptr; bulk = bulk->outer) {
    const ReadyList todo = std::exchange(bulk->todo, ReadyList());
    if (!todo.empty()) bulk->scheduler->dispatch(todo);
  }
}

void Scheduler::begin_waiting() noexcept {
  pass_bulk_on();
  waiting_.fetch_add(1, std::memory_order_seq_cst);
  Bulk::flush_all(this);
}

void Scheduler::hand_over(Block* block) noexcept {
  ReadyList ready;
  ready.push(block);
  dispatch(ready);
  end_hand_over();
}

}  // namespace mx::engine
