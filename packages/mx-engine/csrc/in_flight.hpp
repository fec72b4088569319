// SPDX-License-Identifier: Apache-2.0
//
// An operation that was launched on a device and is not known to be done.
//
// Its variables are free for operations of the same device, which are ordered after it by the
// device, and taken for everything else.  It is complete when its token is reached and the in-flight
// operations that it depends on are complete: only then are versions, failures and deletions as if the operations
// had run one by one.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "block.hpp"
#include "poison.hpp"
#include "mx_core/spin.hpp"

namespace mx::engine {

class Stream;

struct InFlight {
  // A read of a variable, in the list of the variable's reads; guarded by the variable's lock.
  struct Reading {
    InFlight* in_flight = nullptr;
    Reading* next = nullptr;
    Reading** link = nullptr;  // what points here; NULL when in no list
  };
  // That `later` completes after `earlier`.  Owned by the later one.
  struct Edge {
    InFlight* earlier = nullptr;  // a reference
    InFlight* later = nullptr;
    Edge* next = nullptr;  // among those of the earlier one
  };

  // Throws std::bad_alloc.
  explicit InFlight(Block* of) : block(of), readings(of->n_reads == 0 ? nullptr : new Reading[of->n_reads]) {}
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;
  ~InFlight() {
    release(cause);
    release(outcome);
  }

  std::atomic<uint32_t> references{1};
  // What has to happen before it is complete: its launch, its token, the completion of each earlier one.
  std::atomic<uint32_t> awaited{1};
  Block* const block;
  Stream* stream = nullptr;
  mx_token* token = nullptr;    // after what it launched; NULL before, and without a body
  mx_failure* failure = nullptr;  // of its body or its token
  bool doomed = false;          // it will complete with a failure; published with the variables
  Poison* cause = nullptr;      // why it was not run: a reference,
  const InFlight* doomed_by = nullptr;  // or an earlier one that will complete with the cause
  Poison* outcome = nullptr;    // what it completed with; a reference
  InFlight* next = nullptr;       // on its stream

  SpinLock lock;             // guards both:
  Edge* later = nullptr;     // who waits for its completion
  bool complete = false;     // nobody does any more

  std::vector<Edge> edges;  // does not grow once they are linked
  const std::unique_ptr<Reading[]> readings;  // for each of the operation's reads
};

inline InFlight* retain(InFlight* in_flight) noexcept {
  in_flight->references.fetch_add(1, std::memory_order_relaxed);
  return in_flight;
}
// The last one gives the token back to the device.
void release(InFlight* in_flight) noexcept;

}  // namespace mx::engine
