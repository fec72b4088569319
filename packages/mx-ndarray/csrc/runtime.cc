// SPDX-License-Identifier: Apache-2.0
#include "interpreter_lock.hpp"
#include "runtime.hpp"

namespace mx::nd {

Runtime& Runtime::instance() noexcept {
  static auto* runtime = new Runtime;  // leaked: arrays may outlive static destruction
  return *runtime;
}

InterpreterLockState& interpreter_lock_state() noexcept {
  static auto* state = new InterpreterLockState;
  return *state;
}

const mx_engine_api* Runtime::load_engine() {
  const mx_engine_api* table = loader_->engine();
  table->retain(table->self);
  naive_ = table->is_naive(table->self) != 0;
  engine_.store(table, std::memory_order_release);
  return table;
}

void Runtime::require_slow(mx_context context) {
  if (!mx_on_host(context)) {
    const mx_device_api* table = device(context.type);
    const int32_t count = table->count(table->self);
    if (context.id < 0 || context.id >= count) {
      const std::string last = count > 1 ? " to " + text({context.type, count - 1}) : "";
      throw Error(MX_ERROR_VALUE, "[Context] " + text(context) + " does not exist: there is " +
                                      (count > 0 ? text({context.type, 0}) + last
                                                 : "no device of this type"));
    }
  }
  storage(context.type);
}

}  // namespace mx::nd
