// SPDX-License-Identifier: Apache-2.0
//
// The smallest tables a program can run on: arrays are vectors, calls are
// functions, and the engine runs an operation on the pushing thread while it
// holds the locks of the operation's variables.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <vector>

#include "program.hpp"

struct mx_variable {
  std::shared_mutex mutex;
  std::atomic<uint64_t> version{0};
};

struct mx_array {
  explicit mx_array(size_t n_floats) : values(n_floats), variable(&own) {}
  std::vector<float> values;
  mx_variable own;
  mx_variable* variable;
  int64_t extent = 0;
  mx_context context{MX_CPU, 0};
  std::atomic<int> references{1};
};

using Body = std::function<mx_failure*(const mx_tensor*, const mx_tensor*, const uint8_t*, uint64_t)>;

struct mx_call {
  const char* name = "fake";
  bool python = false;
  uint64_t random_blocks = 0;
  std::atomic<uint32_t> threads{0};  // what the last run was allowed
  Body body;
  std::atomic<int> references{1};
};

struct Pushed {
  uint32_t flags;
  std::vector<mx_variable*> reads;
  std::vector<mx_variable*> writes;
};

class Fakes {
 public:
  Fakes() {
    engine_.self = this;
    engine_.retain = [](void*) {};
    engine_.release = [](void*) {};
    engine_.intern = [](void*, const char* text) -> const char* {
      static std::mutex mutex;
      static std::set<std::string> texts;
      const std::lock_guard<std::mutex> lock(mutex);
      return texts.insert(text).first->c_str();
    };
    engine_.push = [](void* self, const mx_operation* operation, mx_failure** failure, mx_error*) {
      return static_cast<Fakes*>(self)->push(*operation, failure);
    };
    engine_.is_naive = [](void* self) { return static_cast<Fakes*>(self)->naive ? 1 : 0; };
    engine_.new_variable = [](void* self) {
      ++static_cast<Fakes*>(self)->variables;
      return new mx_variable;
    };
    engine_.delete_variable = [](void* self, mx_variable* variable, mx_context, void (*deleter)(void*),
                                 void* argument) {
      --static_cast<Fakes*>(self)->variables;
      deleter(argument);
      delete variable;
    };
    engine_.variable_version = [](void*, mx_variable* variable) { return variable->version.load(); };
    invoke_.array_retain = [](void*, mx_array* array) { ++array->references; };
    invoke_.array_release = [](void*, mx_array* array) { --array->references; };
    invoke_.array_variable = [](void*, mx_array* array) { return array->variable; };
    invoke_.array_tensor = [](void*, mx_array* array, int32_t, mx_tensor* tensor, mx_error*) {
      *tensor = {array->values.data(), &array->extent, array->values.size() * sizeof(float),
                 array->context, MX_FLOAT32, 1, 0};
      return int32_t{MX_OK};
    };
    invoke_.call_retain = [](void*, mx_call* call) { ++call->references; };
    invoke_.call_release = [](void*, mx_call* call) { --call->references; };
    invoke_.call_is_python = [](void*, const mx_call* call) { return call->python ? 1 : 0; };
    invoke_.call_name = [](void*, const mx_call* call) { return call->name; };
    invoke_.call_random_blocks = [](void*, const mx_call* call) { return call->random_blocks; };
    invoke_.run = [](void*, mx_call* call, const mx_run_context* run, const mx_tensor* inputs, uint32_t,
                     const mx_tensor* outputs, const uint8_t* req, uint32_t, const double*,
                     uint32_t, int32_t, uint64_t, uint64_t offset) {
      call->threads = run->threads;
      return call->body(inputs, outputs, req, offset);
    };
    random_.self = this;
    random_.reserve_random = [](void* self, mx_context, uint64_t blocks, uint64_t* key,
                                uint64_t* offset) {
      auto* fakes = static_cast<Fakes*>(self);
      *key = 1;
      *offset = fakes->drawn.fetch_add(blocks);
    };
  }

  mx::symbol::Tables tables(bool random = true) const {
    return {&engine_, &invoke_, random ? &random_ : nullptr};
  }

  std::vector<Pushed> pushed;  // guarded by mutex_
  std::atomic<uint64_t> drawn{100};
  std::atomic<int> variables{0};  // that the engine made and that were not deleted
  bool naive = false;
  std::function<void()> before_push;  // called by whoever pushes

 private:
  int32_t push(const mx_operation& operation, mx_failure** failure) {
    const std::vector<mx_variable*> reads(operation.reads, operation.reads + operation.n_reads);
    const std::vector<mx_variable*> writes(operation.writes, operation.writes + operation.n_writes);
    if (before_push) before_push();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      pushed.push_back({operation.flags, reads, writes});
    }
    std::map<mx_variable*, bool> order;  // address order keeps threads from waiting in a circle
    for (mx_variable* v : reads) order[v] = false;
    for (mx_variable* v : writes) order[v] = true;
    for (auto& [v, writing] : order) writing ? v->mutex.lock() : v->mutex.lock_shared();
    mx_run_context context{};
    context.size = sizeof context;
    context.context = operation.context;
    mx_failure* result = operation.run(operation.argument, &context);
    for (auto& [v, writing] : order) {
      if (writing) ++v->version;
      writing ? v->mutex.unlock() : v->mutex.unlock_shared();
    }
    operation.destroy(operation.argument);
    if (naive) {
      *failure = result;
    } else if (result != nullptr) {
      result->release(result);
    }
    return MX_OK;
  }

  mx_engine_api engine_{};
  mx_invoke_api invoke_{};
  mx_resource_api random_{};
  std::mutex mutex_;
};
