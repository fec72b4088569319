// SPDX-License-Identifier: Apache-2.0
//
// Sums over the workers of one machine, through the memory that they share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "codec.hpp"
#include "window.hpp"

namespace mx::kv {

enum class Kind : int32_t {
  kSum,    // of what the workers send
  kFirst,  // what one worker has in its first target
  kCodes,  // of what the codes of the workers' float32 gradients stand for
};

// What is exchanged of a key; the kind, the type and the size are the same on all workers.
struct Item {
  Kind kind = Kind::kSum;
  int32_t dtype = 0;  // mx_dtype; bool is added as `or`
  size_t bytes = 0;
  const char* send = nullptr;   // not of kFirst
  // May be what is sent, but must not overlap it otherwise, or each other.  None of a sum: this worker only gives.
  std::vector<void*> targets;
  int64_t root = 0;             // of kFirst: whose it is; the same on all workers
  float* residual = nullptr;    // of kCodes
  Code code = Code::kTwoBits;   // the same
  float threshold = 0;          // the same
};

// Whether `exchange` can add the type.
bool can_exchange(int32_t dtype) noexcept;

// Exchanges items in their order, the same on all workers.  Terms are added in the order of ranks, those of 16 bits in
// float32 and rounded once.  Each worker adds a part of each chunk, so every byte is read from main memory once and
// written once.  Large sums whose arrays all workers see are added where they lie, after the others.  Blocks; false
// when the window was stopped: then others may still read and write the arrays of such sums.
// `done(i)`: item i is complete; what it has may go.  In order among those of either way.
bool exchange(Window& window, const std::vector<Item>& items, const std::function<void(size_t)>& done);

}  // namespace mx::kv
