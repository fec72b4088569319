// SPDX-License-Identifier: Apache-2.0
//
// Services for tests: an engine that runs everything in push order on one worker thread and deletes
// what no pending operation names at once, memory from malloc, random streams that count.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "mx_core/native_tests.hpp"
#include "runtime.hpp"

struct mx_variable {
  mx_failure* failure = nullptr;
  std::atomic<int> pending{0};  // operations that name it
};

namespace fakes {

class Engine {
 public:
  Engine() : worker_([this] { work(); }) {
    api.head = {sizeof api, MX_ENGINE_MAJOR, MX_ENGINE_MINOR};
    api.self = this;
    api.retain = [](void*) {};
    api.release = [](void*) {};
    api.intern = [](void*, const char* text) -> const char* { return text; };
    api.new_variable = [](void*) { return new mx_variable; };
    api.delete_variable = [](void* self, mx_variable* variable, mx_context,
                             void (*deleter)(void*), void* argument) {
      const auto remove = [=] {
        deleter(argument);
        if (variable->failure != nullptr) variable->failure->release(variable->failure);
        delete variable;
      };
      if (variable->pending == 0) return remove();
      static_cast<Engine*>(self)->add(remove);
    };
    api.push = &Engine::push;
    api.is_naive = [](void*) { return 0; };
  }
  ~Engine() {
    drain();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    worker_.join();
  }

  // Blocks until everything pushed has finished.
  void drain() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
  }
  // Holds the worker while set.
  void hold(bool on) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      held_ = on;
    }
    changed_.notify_all();
  }

  mx_engine_api api{};
  std::vector<std::pair<uint32_t, uint32_t>> pushed;  // reads, writes of each operation; guarded by mutex_
  std::vector<mx_operation> operations;  // what was pushed, with lists that are gone; guarded by mutex_
  // The stream of an accelerator, and how it is waited for.  Set before anything is pushed there.
  std::function<void*(mx_context)> stream = [](mx_context) { return nullptr; };
  std::function<void(void*)> settle = [](void*) {};

 private:
  static int32_t push(void* self, const mx_operation* given, mx_failure**, mx_error*) {
    auto* engine = static_cast<Engine*>(self);
    std::set<mx_variable*> seen;
    for (uint32_t i = 0; i < given->n_reads; ++i) CHECK(seen.insert(given->reads[i]).second);
    for (uint32_t i = 0; i < given->n_writes; ++i) CHECK(seen.insert(given->writes[i]).second);
    {
      std::lock_guard<std::mutex> lock(engine->mutex_);
      engine->pushed.emplace_back(given->n_reads, given->n_writes);
      engine->operations.push_back(*given);
    }
    const mx_operation operation = *given;
    const std::vector<mx_variable*> writes(given->writes, given->writes + given->n_writes);
    for (mx_variable* variable : seen) ++variable->pending;
    engine->add([engine, operation, writes, seen] {
      mx_run_context run{};
      run.size = sizeof run;
      run.worker = 1;
      run.context = operation.context;
      run.stream = engine->stream(operation.context);
      mx_failure* failure = operation.run(operation.argument, &run);
      if (run.stream != nullptr) engine->settle(run.stream);
      for (mx_variable* variable : writes) {
        if (failure == nullptr) continue;
        failure->retain(failure);
        variable->failure = failure;
      }
      if (failure != nullptr) failure->release(failure);
      operation.destroy(operation.argument);
      for (mx_variable* variable : seen) --variable->pending;
    });
    return MX_OK;
  }

  template <class Body>
  void add(Body body) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      queue_.emplace_back(std::move(body));
    }
    changed_.notify_all();
  }

  void work() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stopped_ || (!queue_.empty() && !held_); });
      if (stopped_) return;
      std::function<void()> body = std::move(queue_.front());
      queue_.pop_front();
      busy_ = true;
      lock.unlock();
      body();
      lock.lock();
      busy_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool busy_ = false, held_ = false, stopped_ = false;
  std::thread worker_;
};

// Counts blocks that are alive.
struct Storage {
  Storage() {
    api.head = {sizeof api, MX_STORAGE_MAJOR, MX_STORAGE_MINOR};
    api.self = this;
    api.alloc = [](void* self, mx_context context, size_t bytes, const char*, mx_block* block,
                   mx_error* error) -> int32_t {
      auto* storage = static_cast<Storage*>(self);
      if (bytes > (size_t{1} << 30)) return mx::set_error(error, MX_ERROR_MEMORY, "too much");
      *block = {std::malloc(bytes == 0 ? 1 : bytes), bytes, context, nullptr};
      std::memset(block->data, 0xAB, bytes);
      storage->alive.fetch_add(1);
      return MX_OK;
    };
    api.free = [](void* self, const mx_block* block) {
      static_cast<Storage*>(self)->alive.fetch_sub(1);
      std::free(block->data);
    };
  }
  mx_storage_api api{};
  std::atomic<int> alive{0};
};

struct Random {
  Random() {
    api.head = {sizeof api, MX_RESOURCE_MAJOR, MX_RESOURCE_MINOR};
    api.self = this;
    api.reserve_random = [](void* self, mx_context, uint64_t blocks, uint64_t* key,
                            uint64_t* offset) {
      *key = 7;
      *offset = static_cast<Random*>(self)->next.fetch_add(blocks);
    };
  }
  mx_resource_api api{};
  std::atomic<uint64_t> next{0};
};

struct Loader final : mx::nd::ServiceLoader {
  Loader() { mx::nd::Runtime::instance().set_loader(this); }
  const mx_engine_api* engine() override { return &engine_.api; }
  const mx_storage_api* storage(int32_t) override { return &storage_.api; }
  const mx_resource_api* random(int32_t) override { return &random_.api; }
  const mx_device_api* device(int32_t) override { throw mx::Error(MX_ERROR, "no device"); }
  std::string device_name(int32_t type) override { return "type" + std::to_string(type); }
  Storage storage_;
  Random random_;
  Engine engine_;  // last: its worker uses the others
};

}  // namespace fakes
