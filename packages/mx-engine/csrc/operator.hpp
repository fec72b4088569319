// SPDX-License-Identifier: Apache-2.0
//
// An operation that is pushed again and again; its list of variables is checked once.
#pragma once

#include <atomic>
#include <vector>

#include "variable.hpp"

struct mx_operator {
  mx_operation prototype{};
  std::vector<mx_variable*> variables;  // reads, then writes
  std::atomic<uint32_t> references{1};
};

namespace mx::engine {

inline void release(Operator* op) noexcept {
  if (op->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (op->prototype.destroy != nullptr) op->prototype.destroy(op->prototype.argument);
  delete op;
}

}  // namespace mx::engine
