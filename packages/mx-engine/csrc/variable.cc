// SPDX-License-Identifier: Apache-2.0
#include "variable.h"

void mx_variable::advance(mx::engine::ReadyList& ready) noexcept {
  while (mx::engine::Entry* entry = head) {
    const bool write = entry->write;
    if (writing || (write && reading > 0)) return;
    grant(write);
    head = entry->next;
    mx::engine::Block* block = entry->block;
    // From here on the entry may belong to an operation that runs elsewhere.
    if (block->ungranted.fetch_sub(1, std::memory_order_acq_rel) == 1) ready.push(block);
    if (write) return;
  }
}

bool mx_variable::remove(mx::engine::Entry* entry) noexcept {
  mx::engine::Entry* before = nullptr;
  for (mx::engine::Entry* at = head; at != nullptr; before = at, at = at->next) {
    if (at != entry) continue;
    *(before == nullptr ? &head : &before->next) = entry->next;
    if (tail == entry) tail = before;
    return true;
  }
  return false;
}

namespace mx::engine {

void free_variable(Variable* variable) noexcept {
  release(variable->poison);
  delete variable;
}

void unpin(Variable* variable) noexcept {
  variable->lock.lock();
  const bool last = --variable->pins == 0 && variable->deleted;
  variable->lock.unlock();
  if (last) free_variable(variable);
}

}  // namespace mx::engine
