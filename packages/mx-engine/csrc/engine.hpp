// SPDX-License-Identifier: Apache-2.0
//
// The engine behind mx_engine_api: its parts, and pushing.  docs/architecture/engine.md explains the design.
#pragma once

#include <memory>
#include <string>

#include "lifecycle.hpp"
#include "operator.hpp"

namespace mx::engine {

// Threads: any.
class Engine final {
 public:
  explicit Engine(EngineOptions options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // The C table; lives as long as the engine.
  mx_engine_api* table() noexcept { return &table_; }
  const std::string& name() const noexcept { return options_.name; }
  bool naive() const noexcept { return options_.naive; }

  int32_t push(const mx_operation& operation, mx_failure** failure, mx_error* error);
  Operator* new_operator(const mx_operation& prototype, mx_error* error) noexcept;
  int32_t push_operator(Operator* op, mx_context context, int32_t priority, mx_failure** failure,
                        mx_error* error);

  Variables& variables() noexcept { return variables_; }
  Completion& completion() noexcept { return completion_; }
  Scheduler& scheduler() noexcept { return scheduler_; }
  Waiting& waiting() noexcept { return waiting_; }
  Lifecycle& lifecycle() noexcept { return lifecycle_; }
  FailureLedger& failures() noexcept { return completion_.failures(); }
  Profile& profile() noexcept { return profile_; }

 private:
  friend class Lifecycle;  // which ends it
  ~Engine() = default;

  int32_t admit(mx_error* error) noexcept;
  int32_t enter(const mx_operation& operation, Operator* op, Stream* stream, mx_failure** failure, mx_error* error);
  int32_t check_writes(const mx_operation& operation, mx_error* error) noexcept;

  // In the order of what knows what: each part knows those before it.
  mx_engine_api table_;
  const EngineOptions options_;
  const std::unique_ptr<Monitor> monitor_;  // the debugging engine's
  Admission admission_;
  Profile profile_;
  Variables variables_;
  Completion completion_;
  Scheduler scheduler_;
  Waiting waiting_;
  Lifecycle lifecycle_;
};

}  // namespace mx::engine
