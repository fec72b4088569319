// SPDX-License-Identifier: Apache-2.0
//
// An operation that was launched on a device and is not known to be done.
//
// Its variables are free for operations of the same device, which are ordered behind it by the
// device, and taken for everything else.  A flight lands when its token is reached and the flights
// it depends on have landed: only then are versions, failures and deletions as if the operations
// had run one by one.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "block.h"
#include "poison.h"
#include "spin_lock.h"

namespace mx::engine {

class Stream;

struct Flight {
  // A read of a variable, in the list of the variable's reads; guarded by the variable's lock.
  struct Reading {
    Flight* flight = nullptr;
    Reading* next = nullptr;
    Reading** link = nullptr;  // what points here; NULL when in no list
  };
  // That `later` lands after `earlier`.  Owned by the later one.
  struct Edge {
    Flight* earlier = nullptr;  // a reference
    Flight* later = nullptr;
    Edge* next = nullptr;  // among those of the earlier one
  };

  // Throws std::bad_alloc.
  Flight(Block* of, uint32_t edge_limit)
      : block(of), edges(new Edge[edge_limit]), readings(new Reading[of->n_reads]) {}
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;
  ~Flight() {
    release(cause);
    release(outcome);
  }

  std::atomic<uint32_t> references{1};
  // What has to happen before it lands: its launch, its token, the landing of each earlier one.
  std::atomic<uint32_t> awaited{1};
  Block* const block;
  Stream* stream = nullptr;
  mx_token* token = nullptr;    // behind what it launched; NULL before, and without a body
  mx_failure* failure = nullptr;  // of its body or its token
  bool doomed = false;          // it will land with a failure; published with the variables
  Poison* cause = nullptr;      // why it was not run: a reference,
  const Flight* doomed_by = nullptr;  // or an earlier one that will land with the cause
  Poison* outcome = nullptr;    // what it landed with; a reference
  Flight* next = nullptr;       // on its stream

  SpinLock lock;
  Edge* later = nullptr;  // guarded by lock: who waits for its landing

  uint32_t n_edges = 0;
  const std::unique_ptr<Edge[]> edges;
  const std::unique_ptr<Reading[]> readings;  // for each of the operation's reads
};

inline Flight* retain(Flight* flight) noexcept {
  flight->references.fetch_add(1, std::memory_order_relaxed);
  return flight;
}
// The last one gives the token back to the device.
void release(Flight* flight) noexcept;

}  // namespace mx::engine
