// SPDX-License-Identifier: Apache-2.0
//
// The smallest tables a loop can run on: arrays are pieces of vectors, and an engine of threads that runs operations in
// the order of their pushes, without regard to variables: a test pushes one operation at a time and waits for it.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "mx_core/types.hpp"
#include "operation.hpp"

struct mx_variable {};

struct mx_array {
  mx_array(int32_t dtype, int64_t elements, void* data, mx_variable* variable)
      : dtype(dtype), shape(elements), data(data), variable(variable) {}
  int32_t dtype;
  int64_t shape;
  void* data;
  mx_variable* variable;
  mx_context context{MX_CPU, 0};
  std::atomic<int> references{1};
};

struct mx_completion {
  mx_failure* failure = nullptr;
  bool done = false;
};

namespace test {

class Engine {
 public:
  explicit Engine(int workers) : workers_(workers) {
    table_.head = {sizeof table_, MX_ENGINE_MAJOR, MX_ENGINE_MINOR};
    table_.self = this;
    table_.intern = [](void*, const char* text) { return text; };
    table_.workers = [](void* self) -> int32_t { return static_cast<Engine*>(self)->workers_; };
    table_.push = [](void* self, const mx_operation* operation, mx_failure**, mx_error* error) {
      return static_cast<Engine*>(self)->push(*operation, error);
    };
    table_.complete = [](void* self, mx_completion* done, mx_failure* failure) {
      auto* engine = static_cast<Engine*>(self);
      const std::lock_guard<std::mutex> lock(engine->mutex_);
      if (done->done) std::abort();
      done->failure = failure;
      done->done = true;
      engine->changed_.notify_all();
    };
    for (int i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Engine() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ends_ = true;
      changed_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
  }

  const mx_engine_api* table() const { return &table_; }
  // Refuses all pushes after the next `n`.
  void refuse_after(int n) { allowed_ = n; }
  int pushed() const { return pushed_; }
  uint32_t reads() const { return reads_; }
  uint32_t writes() const { return writes_; }

  // Waits for the operation that was pushed last but by operations; its message, if it failed.
  std::string wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return first_.done && busy_ == 0 && queue_.empty(); });
    if (first_.failure == nullptr) return {};
    const std::string message = first_.failure->message;
    first_.failure->release(first_.failure);
    return message;
  }

 private:
  int32_t push(const mx_operation& operation, mx_error* error) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (allowed_-- <= 0) {
      lock.unlock();
      operation.destroy(operation.argument);
      return mx::set_error(error, MX_ERROR_SHUTDOWN, "refused");
    }
    ++pushed_;
    const bool first = operation.n_writes != 0;
    if (first) {
      first_ = {};
      reads_ = operation.n_reads;
      writes_ = operation.n_writes;
    }
    queue_.push_back({operation, first});
    changed_.notify_all();
    return MX_OK;
  }

  void work() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return ends_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const auto [operation, first] = queue_.front();
      queue_.pop_front();
      ++busy_;
      lock.unlock();
      const mx_run_context run{sizeof run, 1, operation.context, nullptr, nullptr, nullptr, 0};
      mx_failure* failure = nullptr;
      if (operation.run != nullptr) {
        failure = operation.run(operation.argument, &run);
      } else {
        operation.run_async(operation.argument, &run, &first_);
      }
      operation.destroy(operation.argument);
      lock.lock();
      --busy_;
      if (first && operation.run != nullptr) {
        first_.failure = failure;
        first_.done = true;
      }
      changed_.notify_all();
    }
  }

  struct Item {
    mx_operation operation;
    bool first;
  };
  mx_engine_api table_{};
  const int workers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  int busy_ = 0;
  int allowed_ = 1 << 30;
  int pushed_ = 0;
  uint32_t reads_ = 0, writes_ = 0;
  bool ends_ = false;
  mx_completion first_;
  std::vector<std::thread> threads_;
};

inline const mx_invoke_api* arrays() {
  static const mx_invoke_api table = [] {
    mx_invoke_api made{};
    made.array_retain = [](void*, mx_array* array) { ++array->references; };
    made.array_release = [](void*, mx_array* array) { --array->references; };
    made.array_variable = [](void*, mx_array* array) { return array->variable; };
    made.array_tensor = [](void*, mx_array* array, int32_t, mx_tensor* tensor, mx_error*) -> int32_t {
      *tensor = {array->data, &array->shape, static_cast<size_t>(array->shape) * mx::item_size(array->dtype),
                 array->context, array->dtype, 1, 0};
      return MX_OK;
    };
    return made;
  }();
  return &table;
}

}  // namespace test
