// SPDX-License-Identifier: Apache-2.0
//
// An operation with the variables at which it takes its places: the wholes of those that it names, each once, and
// the turn of its stream.
#pragma once

#include <algorithm>
#include <vector>

#include "variable.hpp"

namespace mx::engine {

class PlacedOperation {
 public:
  // `turn` is written, too, unless it is NULL.  Throws std::bad_alloc.
  PlacedOperation(const mx_operation& given, Variable* turn) : operation_(&given) {
    if (turn == nullptr && !any_part(given.reads, given.n_reads) && !any_part(given.writes, given.n_writes)) return;
    const size_t most = given.n_reads + size_t{given.n_writes} + 1;
    if (most > kInline) {
      spill_.resize(most);
      list_ = spill_.data();
    }
    Variable** const writes = list_;
    Variable** reads = add(given.writes, given.n_writes, writes);
    if (turn != nullptr) *reads++ = turn;
    Variable** const end = add(given.reads, given.n_reads, reads);  // but for what it writes, too
    placed_ = given;
    placed_.writes = writes;
    placed_.n_writes = static_cast<uint32_t>(reads - writes);
    placed_.reads = reads;
    placed_.n_reads = static_cast<uint32_t>(end - reads);
    operation_ = &placed_;
  }
  PlacedOperation(const PlacedOperation&) = delete;
  PlacedOperation& operator=(const PlacedOperation&) = delete;

  const mx_operation& operator*() const noexcept { return *operation_; }
  const mx_operation* operator->() const noexcept { return operation_; }
  // Whether one of the variables that were given is a part.
  bool joined() const noexcept { return n_wholes_ != 0; }

 private:
  static constexpr size_t kInline = 16;

  static bool any_part(Variable* const* list, uint32_t n) noexcept {
    for (uint32_t i = 0; i < n; ++i) {
      if (list[i]->whole.load(std::memory_order_relaxed) != nullptr) return true;
    }
    return false;
  }
  // Adds the wholes of variables to the list, in order, those of parts once.
  Variable** add(Variable* const* variables, uint32_t n, Variable** end) noexcept {
    for (uint32_t i = 0; i < n; ++i) {
      Variable* whole = whole_of(variables[i]);
      if (is_known(whole, end)) continue;
      if (whole != variables[i]) {
        if (n_wholes_ < kWholes) wholes_[n_wholes_] = whole;
        ++n_wholes_;
        if (std::find(list_, end, whole) != end) continue;  // which was given itself
      }
      *end++ = whole;
    }
    return end;
  }
  // Whether it is in the list as the whole of a part.
  bool is_known(const Variable* whole, Variable* const* end) const noexcept {
    if (n_wholes_ > kWholes) return std::find(list_, const_cast<Variable**>(end), whole) != end;
    return std::find(wholes_, wholes_ + n_wholes_, whole) != wholes_ + n_wholes_;
  }

  static constexpr uint32_t kWholes = 8;
  Variable* wholes_[kWholes];  // the first that parts were found to have
  uint32_t n_wholes_ = 0;
  const mx_operation* operation_;
  mx_operation placed_;  // with other variables than were given
  Variable* inline_[kInline];
  Variable** list_ = inline_;
  std::vector<Variable*> spill_;
};

}  // namespace mx::engine
