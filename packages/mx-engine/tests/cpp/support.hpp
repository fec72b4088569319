// SPDX-License-Identifier: Apache-2.0
//
// The C table in C++ clothes.
#pragma once

#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine.hpp"
#include "mx_core/native_tests.hpp"

namespace test {

using mx::FailureRef;
using mx::engine::Engine;
using mx::engine::EngineOptions;

inline const std::vector<int> kWorkerCounts = {1, 2, 3, 7, 16};

inline void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// What a push takes beside its body.
struct How {
  std::vector<mx_variable*> reads, writes;
  int32_t property = MX_FN_NORMAL;
  int32_t priority = 0;
  uint32_t flags = 0;
  const char* name = "test";
  mx_context context{MX_CPU, 0};
};

using Body = std::function<mx_failure*(const mx_run_context&)>;
using AsyncBody = std::function<void(const mx_run_context&, mx_completion*)>;

// An engine seen through its table only.
class Table {
 public:
  explicit Table(const EngineOptions& options) : api_((new Engine(options))->table()) {}
  explicit Table(int workers, bool naive = false, bool per_device = true, int python = 1)
      : Table(options_of(workers, naive, per_device, python)) {}
  ~Table() { api_->release(api_->self); }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  const mx_engine_api* operator->() const { return api_; }
  void* self() const { return api_->self; }

  mx_variable* variable() const {
    mx_variable* v = api_->new_variable(self());
    CHECK(v != nullptr);
    return v;
  }
  void remove(mx_variable* v) const {
    api_->delete_variable(self(), v, {MX_CPU, 0}, nullptr, nullptr);
  }
  uint64_t version(mx_variable* v) const { return api_->variable_version(self(), v); }

  // Returns the status; the failure of a naive push goes to `failure`.
  int32_t try_push(const How& how, Body body, mx_failure** failure, mx_error* error) const {
    mx_operation op = operation(how);
    op.run = [](void* argument, const mx_run_context* run) {
      return (*static_cast<Body*>(argument))(*run);
    };
    op.argument = new Body(std::move(body));
    op.destroy = [](void* argument) { delete static_cast<Body*>(argument); };
    return api_->push(self(), &op, failure, error);
  }
  void push(const How& how, Body body) const {
    mx_error error{};
    const int32_t status = try_push(how, std::move(body), nullptr, &error);
    if (status != MX_OK) std::fprintf(stderr, "push: %s\n", error.message);
    CHECK(status == MX_OK);
  }
  void push_async(const How& how, AsyncBody body) const {
    mx_operation op = operation(how);
    op.run_async = [](void* argument, const mx_run_context* run, mx_completion* done) {
      (*static_cast<AsyncBody*>(argument))(*run, done);
    };
    op.argument = new AsyncBody(std::move(body));
    op.destroy = [](void* argument) { delete static_cast<AsyncBody*>(argument); };
    mx_error error{};
    CHECK(api_->push(self(), &op, nullptr, &error) == MX_OK);
  }
  void complete(mx_completion* done, mx_failure* failure = nullptr) const {
    api_->complete(self(), done, failure);
  }

  // The text of the failure, "" without one.
  std::string wait(mx_variable* v, bool for_write = false) const {
    mx_failure* failure = nullptr;
    mx_error error{};
    CHECK(api_->wait_for_variable(self(), v, for_write, 60'000'000'000, &failure, &error) == MX_OK);
    return text(failure);
  }
  std::string wait_all() const {
    mx_failure* failure = nullptr;
    mx_error error{};
    CHECK(api_->wait_for_all(self(), 60'000'000'000, &failure, &error) == MX_OK);
    return text(failure);
  }
  // The same without delivering anything.
  void quiet() const {
    mx_error error{};
    CHECK(api_->wait_for_all(self(), 60'000'000'000, nullptr, &error) == MX_OK);
  }
  std::string failure_of(mx_variable* v) const { return text(api_->variable_failure(self(), v)); }

 private:
  static std::string text(mx_failure* failure) {
    const FailureRef owned(failure);
    return failure == nullptr ? "" : failure->message;
  }
  static mx_operation operation(const How& how) {
    mx_operation op{};
    op.size = sizeof op;
    op.flags = how.flags;
    op.context = how.context;
    op.property = how.property;
    op.priority = how.priority;
    op.name = how.name;
    op.origin = "test.cc:1";
    op.reads = how.reads.data();
    op.writes = how.writes.data();
    op.n_reads = static_cast<uint32_t>(how.reads.size());
    op.n_writes = static_cast<uint32_t>(how.writes.size());
    return op;
  }
  static EngineOptions options_of(int workers, bool naive, bool per_device, int python) {
    EngineOptions options;
    options.naive = naive;
    options.per_device = per_device;
    options.limits.compute = workers;
    options.limits.python = python;
    return options;
  }
  const mx_engine_api* const api_;
};

inline mx_failure* fail(const std::string& text) { return mx::make_failure(MX_ERROR, text.c_str()); }

}  // namespace test
