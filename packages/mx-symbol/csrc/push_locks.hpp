// SPDX-License-Identifier: Apache-2.0
//
// Who pushes to an arena, or to arrays of prepared nodes: between the first and the last operation of a part nobody
// else may push one that uses the same, or it would overwrite what the part's operations hand to each other there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "mx_core/engine.h"

namespace mx::symbol {

// Mutexes that such memory shares by the hash of its variables, so that pushes on different memory seldom meet.
class PushLocks {
 public:
  static constexpr size_t kStripes = 64;
  using Stripes = std::vector<uint32_t>;  // sorted, each once

  // Holds some stripes while it lives.
  class Held {
   public:
    explicit Held(const Stripes* stripes) noexcept : stripes_(stripes) {}
    Held(Held&& other) noexcept : stripes_(std::exchange(other.stripes_, nullptr)) {}
    Held& operator=(Held&&) = delete;
    ~Held();

   private:
    const Stripes* stripes_;
  };

  // Puts those of some memory in the place of others.
  static void find(const std::vector<mx_variable*>& memory, Stripes& stripes);
  // Locks in the order of the stripes, which keeps threads from waiting in a circle.
  static Held hold(const Stripes& stripes);
};

}  // namespace mx::symbol
