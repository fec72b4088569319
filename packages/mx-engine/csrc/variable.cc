// SPDX-License-Identifier: Apache-2.0
#include "variable.hpp"

#include "device.hpp"
#include "variable_wait.hpp"

void mx_variable::advance(mx::engine::ReadyList& ready) noexcept {
  while (mx::engine::Entry* entry = head) {
    const bool write = entry->write;
    mx::engine::Block* block = entry->block;
    if (!free(write, block)) return;
    if (block->kind == mx::engine::BlockKind::wait) {
      // Nothing is pending for it: what it were granted until it is told, a fork in between would leave for ever.
      auto* wait = static_cast<mx::engine::VariableWait*>(block->argument);
      wait->poison = mx::engine::retain(poison);
      wait->held = wait->keeps;
      if (wait->held) grant(false);
      wait->ended = true;
      head = entry->next;
      ready.push(block);  // to be told; lives until then
      continue;
    }
    if (block->kind == mx::engine::BlockKind::deletion) {  // of this variable or of a part: it needs no grant
      head = entry->next;
      ready.push(block);
      continue;
    }
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
  if (in_flight_write != nullptr && in_flight_write->stream->device != device) return false;
  if (!write) return true;
  const mx::engine::InFlight::Reading* at = in_flight_reads;
  while (at != nullptr && at->in_flight->stream->device == device) at = at->next;
  return at == nullptr;
}

void mx_variable::leave_in_flight(mx::engine::InFlight* in_flight, const mx::engine::Entry* entry) noexcept {
  give_back(entry->write);
  if (entry->write) {  // completes after everything that was in flight before it
    in_flight_write = in_flight;
    while (mx::engine::InFlight::Reading* reading = in_flight_reads) {
      in_flight_reads = reading->next;
      reading->link = nullptr;
    }
    return;
  }
  auto& reading = in_flight->readings[static_cast<size_t>(entry - in_flight->block->entries)];
  reading = {in_flight, in_flight_reads, &in_flight_reads};
  if (in_flight_reads != nullptr) in_flight_reads->link = &reading.next;
  in_flight_reads = &reading;
}

void mx_variable::complete(mx::engine::InFlight* in_flight, const mx::engine::Entry* entry) noexcept {
  if (entry->write) {
    if (in_flight_write == in_flight) in_flight_write = nullptr;
    return;
  }
  auto& reading = in_flight->readings[static_cast<size_t>(entry - in_flight->block->entries)];
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
