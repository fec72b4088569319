// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "program.hpp"

namespace mx::symbol {

// Tells a profiler, if one listens, of the node that runs while this lives.
class ProfileSpan {
 public:
  ProfileSpan(const Tables& tables, const Node& node, const mx_run_context& run) noexcept
      : tables_(tables), node_(node), run_(run) {
    constexpr size_t kNeeded = offsetof(mx_run_context, reporter) + sizeof run.reporter;
    if (run.size >= kNeeded && run.report != nullptr) started_ = now();
  }
  ProfileSpan(const ProfileSpan&) = delete;
  ProfileSpan& operator=(const ProfileSpan&) = delete;
  ~ProfileSpan() {
    if (started_ == 0) return;
    const mx_engine_api* engine = tables_.engine;
    mx_engine_event event{};
    event.size = sizeof event;
    event.name = tables_.invoke->call_name(tables_.invoke->self, node_.call);
    event.label = engine->intern(engine->self, node_.name.c_str());
    event.context = run_.context;
    event.pushed = event.started = started_;
    event.finished = now();
    event.failed = failed_ ? 1 : 0;
    run_.report(run_.reporter, &event);
  }
  void fail() noexcept { failed_ = true; }

 private:
  static int64_t now() noexcept {
    const auto time = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
  }
  const Tables& tables_;
  const Node& node_;
  const mx_run_context& run_;
  int64_t started_ = 0;
  bool failed_ = false;
};

}  // namespace mx::symbol
