// SPDX-License-Identifier: Apache-2.0
#include "variable.h"

#include "device.h"

void mx_variable::advance(mx::engine::ReadyList& ready) noexcept {
  while (mx::engine::Entry* entry = head) {
    const bool write = entry->write;
    mx::engine::Block* block = entry->block;
    if (!free(write, block)) return;
    grant(write);
    head = entry->next;
    // From here on the entry may belong to an operation that runs elsewhere.
    if (block->ungranted.fetch_sub(1, std::memory_order_acq_rel) == 1) ready.push(block);
    if (write) return;
  }
}

bool mx_variable::ordered_by_device(bool write, const mx::engine::Block* block) const noexcept {
  if (block == nullptr || block->stream == nullptr) return false;
  const mx_device_api* device = block->stream->device;
  if (flying_write != nullptr && flying_write->stream->device != device) return false;
  if (!write) return true;
  const mx::engine::Flight::Reading* at = flying_reads;
  while (at != nullptr && at->flight->stream->device == device) at = at->next;
  return at == nullptr;
}

void mx_variable::take_off(mx::engine::Flight* flight, const mx::engine::Entry* entry) noexcept {
  give_back(entry->write);
  if (entry->write) {  // lands after everything that flew before it
    flying_write = flight;
    while (mx::engine::Flight::Reading* reading = flying_reads) {
      flying_reads = reading->next;
      reading->link = nullptr;
    }
    return;
  }
  auto& reading = flight->readings[static_cast<size_t>(entry - flight->block->entries)];
  reading = {flight, flying_reads, &flying_reads};
  if (flying_reads != nullptr) flying_reads->link = &reading.next;
  flying_reads = &reading;
}

void mx_variable::land(mx::engine::Flight* flight, const mx::engine::Entry* entry) noexcept {
  if (entry->write) {
    if (flying_write == flight) flying_write = nullptr;
    return;
  }
  auto& reading = flight->readings[static_cast<size_t>(entry - flight->block->entries)];
  if (reading.link == nullptr) return;
  *reading.link = reading.next;
  if (reading.next != nullptr) reading.next->link = reading.link;
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
