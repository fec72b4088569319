// SPDX-License-Identifier: Apache-2.0
//
// Operations of accelerators: launched when the body has returned, done when the token recorded
// behind it is reached.
#include <algorithm>
#include <new>

#include "engine.h"

namespace mx::engine {
namespace {

FailureRef to_failure(int32_t status, const mx_error& error) noexcept {
  return FailureRef(status == MX_OK
                        ? nullptr
                        : make_failure(static_cast<mx_status>(status), error.message));
}

FailureRef record(const Stream& stream, mx_token** token) noexcept {
  mx_error error{};
  return to_failure(stream.device->record(stream.device->self, stream.handle, token, &error),
                    error);
}

FailureRef wait(const Stream& stream, mx_token* token) noexcept {
  mx_error error{};
  return to_failure(stream.device->wait(stream.device->self, token, &error), error);
}

void add_edge(Flight* later, Flight* earlier) noexcept {
  Flight::Edge& edge = later->edges[later->n_edges++];
  edge.earlier = retain(earlier);
  edge.later = later;
  later->awaited.fetch_add(1, std::memory_order_relaxed);
  earlier->lock.lock();
  edge.next = std::exchange(earlier->later, &edge);
  earlier->lock.unlock();
}

}  // namespace

int32_t Engine::find_stream(const mx_context& context, const mx_operation& operation,
                            Stream** stream, mx_error* error) noexcept {
  mx_error cause{};
  *stream = devices_.find(context, operation.property, &cause);
  if (*stream != nullptr) return MX_OK;
  return refused(operation.name, error, static_cast<mx_status>(cause.code), cause.message);
}

// Before the body: makes the flight and orders its stream behind the flights it depends on.
// False when the body is not to be run.
bool Engine::take_off(Block* block) noexcept {
  // What flies can only become less while the grants are held, but for other reads.
  uint32_t edges = 0;
  for (uint32_t i = 0; i < block->n_entries; ++i) {
    const Entry& entry = block->entries[i];
    std::lock_guard<SpinLock> lock(entry.variable->lock);
    if (entry.variable->flying_write != nullptr) ++edges;
    if (!entry.write) continue;
    for (auto* at = entry.variable->flying_reads; at != nullptr; at = at->next) ++edges;
  }
  try {
    block->flight = new Flight(block, edges);
  } catch (const std::bad_alloc&) {
    return false;
  }
  Flight* flight = block->flight;
  flight->stream = block->stream;
  find_earlier(flight);
  if (FailureRef failure = order_on_device(flight)) {
    flight->failure = failure.release();
    flight->doomed = true;
  }
  return !flight->doomed;
}

void Engine::find_earlier(Flight* flight) noexcept {
  const Block& block = *flight->block;
  const bool skips = block.property != MX_FN_NO_SKIP;
  if (skips && cancellation() != nullptr) {
    flight->doomed = true;
    flight->cause = engine::retain(cancellation());
  }
  for (uint32_t i = 0; i < block.n_entries; ++i) {
    const Entry& entry = block.entries[i];
    Variable* variable = entry.variable;
    std::lock_guard<SpinLock> lock(variable->lock);
    if (skips && !flight->doomed && failures_.active(variable->poison)) {
      flight->doomed = true;
      flight->cause = engine::retain(variable->poison);
    }
    if (Flight* write = variable->flying_write) {
      if (skips && !flight->doomed && write->doomed) {
        flight->doomed = true;
        flight->doomed_by = write;
      }
      add_edge(flight, write);
    }
    if (!entry.write) continue;
    for (auto* at = variable->flying_reads; at != nullptr; at = at->next) {
      add_edge(flight, at->flight);
    }
  }
}

FailureRef Engine::order_on_device(Flight* flight) noexcept {
  FailureRef failure;
  const Stream& stream = *flight->stream;
  for (uint32_t i = 0; i < flight->n_edges; ++i) {
    const Flight* earlier = flight->edges[i].earlier;
    if (earlier->stream == &stream || earlier->token == nullptr) continue;
    mx_error error{};
    const int32_t status =
        stream.device->stream_wait(stream.device->self, stream.handle, earlier->token, &error);
    if (status == MX_OK) continue;
    failure = to_failure(status, error);
    wait(stream, earlier->token);  // the order holds even so
  }
  return failure;
}

// After the body: from here on what the operation used is free for operations of its device.
void Engine::launched(Block* block, FailureRef failure, ReadyList& ready) noexcept {
  Flight* flight = block->flight;
  if (flight == nullptr) {  // a naive engine, or memory is exhausted
    FailureRef late;
    if (options_.naive) {
      late = wait_for_launched(block);
    } else {
      late = FailureRef(make_failure(MX_ERROR_MEMORY, "out of host memory"));
    }
    finish(block, failure ? std::move(failure) : std::move(late), nullptr, ready);
    return;
  }
  // Also behind a body that failed or was skipped: later operations are ordered behind this one.
  FailureRef late = record(*flight->stream, &flight->token);
  if (late) {
    flight->token = nullptr;
    for (uint32_t i = 0; i < flight->n_edges; ++i) {
      mx_token* earlier = flight->edges[i].earlier->token;
      if (earlier != nullptr) wait(*flight->stream, earlier);
    }
  }
  if (flight->failure == nullptr) flight->failure = (failure ? failure : late).release();
  flight->doomed |= flight->failure != nullptr;
  for (uint32_t i = 0; i < block->n_entries; ++i) {
    Variable* variable = block->entries[i].variable;
    std::lock_guard<SpinLock> lock(variable->lock);
    variable->take_off(flight, &block->entries[i]);
    variable->advance(ready);
  }
  if (flight->token != nullptr) {
    flight->awaited.fetch_add(1, std::memory_order_relaxed);
    flight->stream->watch(flight);
  }
  approach(flight, ready);
}

void Engine::token_reached(Flight* flight, mx_failure* failure) noexcept {
  Block* block = flight->block;
  const bool profiled = block->pushed != 0;
  if (profiled) {  // a stream does one thing after the other, on a thread of its own
    block->thread = thread_number();
    block->started = std::max(block->started, flight->stream->last_landing.load());
  }
  FailureRef owned(failure);
  if (flight->failure == nullptr) flight->failure = owned.release();
  ReadyList ready;
  approach(flight, ready);
  if (profiled) flight->stream->last_landing.store(now_ns());
  engine::release(flight);
  if (!ready.empty()) dispatch(ready);
}

// One of the things a flight's landing takes has happened.
void Engine::approach(Flight* flight, ReadyList& ready) noexcept {
  if (flight->awaited.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  flight->next = nullptr;
  for (Flight* tail = flight; flight != nullptr;) {
    FailureRef failure(flight->failure);
    Poison* inherited = nullptr;
    if (flight->block->property != MX_FN_NO_SKIP) inherited = find_poison(*flight->block);
    if (inherited == nullptr && !failure) inherited = flight->cause;
    if (inherited == nullptr && !failure && flight->doomed_by != nullptr) {
      inherited = flight->doomed_by->outcome;
    }
    // Had the first cause been known at the launch, there would have been none.
    if (inherited != nullptr) failure = {};
    finish(flight->block, std::move(failure), inherited, ready);
    flight->lock.lock();
    Flight::Edge* edge = std::exchange(flight->later, nullptr);
    flight->lock.unlock();
    while (edge != nullptr) {
      Flight* later = edge->later;
      edge = edge->next;
      if (later->awaited.fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
      later->next = nullptr;
      tail = tail->next = later;
    }
    for (uint32_t i = 0; i < flight->n_edges; ++i) engine::release(flight->edges[i].earlier);
    engine::release(std::exchange(flight, flight->next));
  }
}

// What a naive engine does instead of flying.
FailureRef Engine::wait_for_launched(Block* block) noexcept {
  const Stream& stream = *block->stream;
  mx_token* token = nullptr;
  if (FailureRef failure = record(stream, &token)) return failure;
  FailureRef failure = wait(stream, token);
  stream.device->release(stream.device->self, token);
  return failure;
}

void Engine::keep(void* object, void (*release)(void*)) {
  std::lock_guard<std::mutex> lock(quiet_mutex_);
  kept_.push_back({object, release});
}

}  // namespace mx::engine
