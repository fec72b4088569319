// SPDX-License-Identifier: Apache-2.0
//
// What happens when an operation has ended: its failure marks what it would have written, its places
// are given back, and what waited for them becomes ready.
#include "completion.hpp"

#include <new>
#include <utility>

#include "frame.hpp"
#include "operator.hpp"
#include "waiter.hpp"

namespace mx::engine {

Poison* Completion::find_poison(const Block& block) const noexcept {
  for (uint32_t i = 0; i < block.n_entries; ++i) {
    Poison* poison = block.entries[i].variable->poison;
    if (poison != nullptr && failures_.active(poison)) return poison;
  }
  return nullptr;
}

Poison* Completion::reason_to_skip(const Block& block) const noexcept {
  if (block.property == MX_FN_NO_SKIP) return nullptr;
  Poison* const cancelled = cancellation();
  return cancelled != nullptr ? cancelled : find_poison(block);
}

// The body has run, wherever and whenever it did.
void Completion::conclude(Block* block, FailureRef failure, ReadyList& ready) noexcept {
  if (block->stream == nullptr) {
    finish(block, std::move(failure), nullptr, ready);
  } else {
    on_launched(block, std::move(failure), ready);
  }
}

void Completion::finish(Block* block, FailureRef failure, Poison* inherited,
                    ReadyList& ready) noexcept {
  if (monitor_ != nullptr) monitor_->finished(block);
  const bool failed = failure || inherited != nullptr;
  Poison* poison = failure ? failures_.enter(std::move(failure), block->name, block->origin)
                           : engine::retain(inherited);
  if (inherited != nullptr) inherited->inherited.store(true, std::memory_order_relaxed);
  if (profile_.on()) profile_.report(*block, failed);
  if (block->reusable != nullptr) {
    engine::release(block->reusable);
  } else if (block->destroy != nullptr) {
    block->destroy(block->argument);
  }
  if (block->in_flight != nullptr) block->in_flight->outcome = engine::retain(poison);
  if (block->report != nullptr) *block->report = failures_.deliver(poison).release();
  for (uint32_t i = 0; i < block->n_entries; ++i) release_entry(block->entries[i], poison, ready);
  Waiter* completion = block->completion;
  engine::release(poison);
  free_block(block);
  admission_.leave();
  if (completion != nullptr) completion->signal();
}

bool Completion::drop(Block* block, ReadyList& ready) noexcept {
  Poison* const why = cancellation();
  if (why == nullptr) return false;
  finish(block, {}, why, ready);
  return true;
}

void Completion::release_entry(const Entry& entry, Poison* poison, ReadyList& ready) noexcept {
  Variable* variable = entry.variable;
  Poison* former = nullptr;
  variable->lock.lock();
  if (entry.write) {
    if (!variable->dying) ++variable->version;
    // A failure nobody has seen yet is the first cause: neither a later failure nor the success
    // of an operation that ran in spite of it takes its place.
    if (variable->poison != poison && !variable->orders_only && !failures_.active(variable->poison)) {
      former = std::exchange(variable->poison, engine::retain(poison));
    }
  }
  if (InFlight* in_flight = entry.block->in_flight) {
    variable->complete(in_flight, &entry);
  } else {
    variable->give_back(entry.write);
  }
  variable->advance(ready);
  const bool dies = variable->may_die();
  variable->lock.unlock();
  if (dies) variables_.die(variable);
  engine::release(former);
}

void Completion::complete(Block* block, mx_failure* failure, ReadyList& ready) noexcept {
  if (block->forks != Frame::forks()) {  // the parent's, who had it pending when this process was forked
    if (failure != nullptr) failure->release(failure);
    return;
  }
  block->async_failure = failure;
  if (block->unfinished_parts.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    conclude(block, FailureRef(failure), ready);
  }
}

void Completion::cancel(const char* why) noexcept {
  auto* poison = new (std::nothrow) Poison(FailureRef(make_failure(MX_ERROR_SHUTDOWN, why)));
  Poison* none = nullptr;
  if (!cancellation_.compare_exchange_strong(none, poison, std::memory_order_acq_rel)) engine::release(poison);
}

}  // namespace mx::engine
