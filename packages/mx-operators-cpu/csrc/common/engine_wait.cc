// SPDX-License-Identifier: Apache-2.0
#include "common/engine_wait.hpp"

#include <exception>
#include <memory>
#include <mutex>
#include <utility>

namespace mx::cpu {
namespace {

constexpr int64_t kInterval = 250'000;  // nanoseconds

// An operation that ends when the wait does. It may start later than that.
struct Waited {
  explicit Waited(const mx_engine_api* used) : engine(used) {}

  void start(mx_completion* begun) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      if (!over) {
        done = begun;
        return;
      }
    }
    engine->complete(engine->self, begun, nullptr);
  }
  void end() {
    mx_completion* begun = nullptr;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      over = true;
      std::swap(begun, done);
    }
    if (begun != nullptr) engine->complete(engine->self, begun, nullptr);
  }

  const mx_engine_api* const engine;
  std::mutex mutex;  // guards what follows
  mx_completion* done = nullptr;
  bool over = false;
};
using Held = std::shared_ptr<Waited>;

void start(void* argument, const mx_run_context* /*run*/, mx_completion* done) {
  (*static_cast<Held*>(argument))->start(done);
}

int32_t go_on(void* argument) {
  const auto& over = *static_cast<const std::function<bool()>*>(argument);
  return over() ? 0 : 1;
}

}  // namespace

EngineWait::EngineWait(const mx_engine_api* engine) noexcept : engine_(engine) {
  if (engine_ != nullptr) engine_->retain(engine_->self);
}

EngineWait::~EngineWait() {
  if (engine_ != nullptr) engine_->release(engine_->self);
}

bool EngineWait::until(mx_context context, const std::function<bool()>& over) const noexcept try {
  const mx_engine_api* const e = engine_;
  if (e == nullptr || !MX_HAS(e->head.size, mx_engine_api, wait_for_variable_while) || e->is_naive(e->self) != 0)
    return false;
  mx_variable* variable = e->new_variable(e->self);
  if (variable == nullptr) return false;
  const Held waited = std::make_shared<Waited>(e);
  auto argument = std::make_unique<Held>(waited);
  mx_operation operation{};
  operation.size = sizeof operation;
  operation.flags = MX_PUSH_INLINE;
  operation.context = context;
  operation.property = MX_FN_ASYNC;
  operation.name = e->intern(e->self, "wait of a kernel");
  operation.writes = &variable;
  operation.n_writes = 1;
  operation.run_async = start;
  operation.argument = argument.release();  // now the engine's, whether it refuses or not
  operation.destroy = [](void* held) { delete static_cast<Held*>(held); };
  mx_error error{};
  int32_t ended = e->push(e->self, &operation, nullptr, &error);
  if (ended == MX_OK) {
    mx_failure* failure = nullptr;
    ended = e->wait_for_variable_while(e->self, variable, 0, kInterval, go_on,
                                       const_cast<std::function<bool()>*>(&over), &failure, &error);
    waited->end();
    if (failure != nullptr) failure->release(failure);
  }
  e->delete_variable(e->self, variable, context, [](void*) {}, nullptr);
  return ended == MX_TIMEOUT;
} catch (const std::exception&) {
  return false;  // no memory
}

}  // namespace mx::cpu
