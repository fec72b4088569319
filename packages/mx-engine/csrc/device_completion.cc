// SPDX-License-Identifier: Apache-2.0
//
// Operations of accelerators: launched when the body has returned, done when the token recorded
// after it is reached.
#include <algorithm>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "completion.hpp"
#include "device.hpp"

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

// Once for many variables in a row that the same operation used.  Throws std::bad_alloc.
void add_edge(InFlight* later, InFlight* earlier) {
  if (!later->edges.empty() && later->edges.back().earlier == earlier) return;
  later->edges.push_back({earlier, later, nullptr});
  retain(earlier);
}

void release_earlier(const InFlight* in_flight) noexcept {
  for (const InFlight::Edge& edge : in_flight->edges) release(edge.earlier);
}

// The earlier one may be complete by now.
void link(InFlight::Edge& edge) noexcept {
  InFlight& earlier = *edge.earlier;
  const std::lock_guard<SpinLock> lock(earlier.lock);
  if (earlier.complete) return;
  edge.later->awaited.fetch_add(1, std::memory_order_relaxed);
  edge.next = std::exchange(earlier.later, &edge);
}

}  // namespace

// Before the body: makes the in-flight operation and orders its stream after those it depends on.
// False when the body is not to be run.
bool Completion::begin_on_device(Block* block) noexcept {
  std::unique_ptr<InFlight, void (*)(InFlight*)> in_flight(nullptr, &engine::release);
  try {
    in_flight.reset(new InFlight(block));
    in_flight->stream = block->stream;
    find_earlier(in_flight.get());
  } catch (const std::bad_alloc&) {
    if (in_flight != nullptr) release_earlier(in_flight.get());
    return false;
  }
  for (InFlight::Edge& edge : in_flight->edges) link(edge);
  if (FailureRef failure = order_on_device(in_flight.get())) {
    in_flight->failure = failure.release();
    in_flight->doomed = true;
  }
  block->in_flight = in_flight.release();
  return !block->in_flight->doomed;
}

// Throws std::bad_alloc.
void Completion::find_earlier(InFlight* in_flight) {
  const Block& block = *in_flight->block;
  const bool skips = block.property != MX_FN_NO_SKIP;
  if (skips && cancellation() != nullptr) {
    in_flight->doomed = true;
    in_flight->cause = engine::retain(cancellation());
  }
  for (uint32_t i = 0; i < block.n_entries; ++i) {
    const Entry& entry = block.entries[i];
    Variable* variable = entry.variable;
    std::lock_guard<ForkLock> lock(variable->lock);
    if (skips && !in_flight->doomed && failures_.active(variable->poison)) {
      in_flight->doomed = true;
      in_flight->cause = engine::retain(variable->poison);
    }
    if (InFlight* write = variable->in_flight_write) {
      add_edge(in_flight, write);
      if (skips && !in_flight->doomed && write->doomed && !variable->orders_only) {
        in_flight->doomed = true;
        in_flight->doomed_by = write;
      }
    }
    if (!entry.write) continue;
    for (auto* at = variable->in_flight_reads; at != nullptr; at = at->next) add_edge(in_flight, at->in_flight);
  }
}

FailureRef Completion::order_on_device(InFlight* in_flight) noexcept {
  FailureRef failure;
  const Stream& stream = *in_flight->stream;
  for (const InFlight::Edge& edge : in_flight->edges) {
    const InFlight* earlier = edge.earlier;
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
void Completion::on_launched(Block* block, FailureRef failure, ReadyList& ready) noexcept {
  InFlight* in_flight = block->in_flight;
  if (in_flight == nullptr) {  // a naive engine, or memory is exhausted
    FailureRef late;
    if (naive_) {
      late = wait_for_launched(block);
    } else {
      late = FailureRef(make_failure(MX_ERROR_MEMORY, "out of host memory"));
    }
    finish(block, failure ? std::move(failure) : std::move(late), nullptr, ready);
    return;
  }
  // Also after a body that failed or was skipped: later operations are ordered after this one.
  FailureRef late = record(*in_flight->stream, &in_flight->token);
  if (late) {
    in_flight->token = nullptr;
    for (const InFlight::Edge& edge : in_flight->edges) {
      mx_token* earlier = edge.earlier->token;
      if (earlier != nullptr) wait(*in_flight->stream, earlier);
    }
  }
  if (in_flight->failure == nullptr) in_flight->failure = (failure ? failure : late).release();
  in_flight->doomed |= in_flight->failure != nullptr;
  for (uint32_t i = 0; i < block->n_entries; ++i) {
    Variable* variable = block->entries[i].variable;
    std::lock_guard<ForkLock> lock(variable->lock);
    variable->leave_in_flight(in_flight, &block->entries[i]);
    variable->advance(ready);
  }
  if (in_flight->token != nullptr) {
    in_flight->awaited.fetch_add(1, std::memory_order_relaxed);
    in_flight->stream->watch(in_flight);
  }
  on_dependency_ready(in_flight, ready);
}

void Completion::token_reached(InFlight* in_flight, mx_failure* failure, ReadyList& ready) noexcept {
  Block* block = in_flight->block;
  const bool profiled = block->pushed != 0;
  if (profiled) {  // a stream does one thing after the other, on a thread of its own
    block->thread = thread_number();
    block->started = std::max(block->started, in_flight->stream->last_completion.load());
  }
  FailureRef owned(failure);
  if (in_flight->failure == nullptr) in_flight->failure = owned.release();
  on_dependency_ready(in_flight, ready);
  if (profiled) in_flight->stream->last_completion.store(now_ns());
  engine::release(in_flight);
}

// One of the things that an in-flight operation needs to be complete has happened.
void Completion::on_dependency_ready(InFlight* in_flight, ReadyList& ready) noexcept {
  if (in_flight->awaited.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  in_flight->next = nullptr;
  for (InFlight* tail = in_flight; in_flight != nullptr;) {
    FailureRef failure(in_flight->failure);
    Poison* inherited = nullptr;
    if (in_flight->block->property != MX_FN_NO_SKIP) inherited = find_poison(*in_flight->block);
    if (inherited == nullptr && !failure) inherited = in_flight->cause;
    if (inherited == nullptr && !failure && in_flight->doomed_by != nullptr) {
      inherited = in_flight->doomed_by->outcome;
    }
    // Had the first cause been known at the launch, there would have been none.
    if (inherited != nullptr) failure = {};
    finish(in_flight->block, std::move(failure), inherited, ready);
    in_flight->lock.lock();
    InFlight::Edge* edge = std::exchange(in_flight->later, nullptr);
    in_flight->complete = true;
    in_flight->lock.unlock();
    while (edge != nullptr) {
      InFlight* later = edge->later;
      edge = edge->next;
      if (later->awaited.fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
      later->next = nullptr;
      tail = tail->next = later;
    }
    release_earlier(in_flight);
    engine::release(std::exchange(in_flight, in_flight->next));
  }
}

// What a naive engine does instead of leaving the operation in flight.
FailureRef Completion::wait_for_launched(Block* block) noexcept {
  const Stream& stream = *block->stream;
  mx_token* token = nullptr;
  if (FailureRef failure = record(stream, &token)) return failure;
  FailureRef failure = wait(stream, token);
  stream.device->release(stream.device->self, token);
  return failure;
}

}  // namespace mx::engine
