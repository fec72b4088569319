// SPDX-License-Identifier: Apache-2.0
#include "outside.hpp"
#include "runtime.hpp"

namespace mx::nd {

Runtime& Runtime::instance() noexcept {
  static auto* runtime = new Runtime;  // leaked: arrays may outlive static destruction
  return *runtime;
}

OutsideState& outside_state() noexcept {
  static auto* state = new OutsideState;
  return *state;
}

const mx_engine_api* Runtime::load_engine() {
  const mx_engine_api* table = loader_->engine();
  table->retain(table->self);
  naive_ = table->is_naive(table->self) != 0;
  engine_.store(table, std::memory_order_release);
  return table;
}

}  // namespace mx::nd
