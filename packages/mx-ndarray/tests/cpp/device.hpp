// SPDX-License-Identifier: Apache-2.0
//
// An accelerator for tests: its memory is main memory, its streams are threads that work late. What
// is missing in synchronisation shows as wrong numbers: freed memory is overwritten at once.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "mx_core/device.h"
#include "mx_core/failure.hpp"
#include "mx_core/kernel.h"
#include "mx_core/storage.h"

namespace fakes {

constexpr int32_t kDevices = 2;
constexpr int32_t kLanes = 3;

// Does what it is given in order, on a thread of its own, each a little later than it could.
class Stream {
 public:
  using Work = std::function<int32_t(mx_error*)>;

  Stream() : worker_([this] { work(); }) {}
  ~Stream() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    worker_.join();
  }
  // The number of the work: it is done when `done()` has reached it.
  uint64_t add(Work work) {
    std::lock_guard<std::mutex> lock(mutex_);
    queue_.push_back(std::move(work));
    changed_.notify_all();
    return ++added_;
  }
  // What was added so far, and where the point before ended: a token tells of the works between.
  std::pair<uint64_t, uint64_t> record() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (added_ != recorded_) before_ = std::exchange(recorded_, added_);
    return {before_, recorded_};
  }
  bool reached(uint64_t number) {
    std::lock_guard<std::mutex> lock(mutex_);
    return done_ >= number;
  }
  // Blocks; the error of works (after, number], if any.
  int32_t wait(uint64_t after, uint64_t number, mx_error* error) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= number; });
    for (const auto& [at, failure] : failures_) {
      if (at <= after || at > number) continue;
      *error = failure;
      return failure.code;
    }
    return MX_OK;
  }

  static std::atomic<int64_t>& delay() {
    static std::atomic<int64_t> nanoseconds{100'000};
    return nanoseconds;
  }

 private:
  void work() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stopped_ || !queue_.empty(); });
      if (queue_.empty()) return;
      Work now = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      random_ = random_ * 6364136223846793005u + 1442695040888963407u;
      const int64_t longest = delay().load();
      const int64_t pause = longest == 0 ? 0 : static_cast<int64_t>(random_ >> 33) % longest;
      std::this_thread::sleep_for(std::chrono::nanoseconds(pause));
      mx_error error{};
      const int32_t status = now(&error);
      now = nullptr;
      lock.lock();
      ++done_;
      if (status != MX_OK) {
        error.code = status;
        failures_.emplace_back(done_, error);
      }
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> queue_;
  std::vector<std::pair<uint64_t, mx_error>> failures_;
  uint64_t added_ = 0, done_ = 0, before_ = 0, recorded_ = 0;
  uint64_t random_ = 88172645463325252u;
  bool stopped_ = false;
  std::thread worker_;
};

}  // namespace fakes

struct mx_token {
  fakes::Stream* stream;
  uint64_t after, number;
};

namespace fakes {

class Device {
 public:
  explicit Device(int32_t type) {
    api.head = {sizeof api, MX_DEVICE_MAJOR, MX_DEVICE_MINOR};
    api.self = this;
    api.type = type;
    api.count = [](void* self) { return static_cast<Device*>(self)->count.load(); };
    api.stream = [](void* self, int32_t id, int32_t lane, void** stream, mx_error* error) {
      if (id < 0 || id >= kDevices || lane < 0 || lane >= kLanes) {
        return mx::set_error(error, MX_ERROR_VALUE, "no such stream");
      }
      *stream = &static_cast<Device*>(self)->streams_[id * kLanes + lane];
      return static_cast<int32_t>(MX_OK);
    };
    api.record = [](void* self, void* stream, mx_token** token, mx_error*) {
      auto* on = static_cast<Stream*>(stream);
      const auto [after, number] = on->record();
      static_cast<Device*>(self)->tokens.fetch_add(1);
      *token = new mx_token{on, after, number};
      return static_cast<int32_t>(MX_OK);
    };
    api.reached = [](void*, mx_token* token) {
      return token->stream->reached(token->number) ? 1 : 0;
    };
    api.wait = [](void*, mx_token* token, mx_error* error) {
      return token->stream->wait(token->after, token->number, error);
    };
    api.stream_wait = [](void*, void* stream, mx_token* token, mx_error*) {
      const mx_token point = *token;
      static_cast<Stream*>(stream)->add([point](mx_error*) {
        mx_error ignored{};
        point.stream->wait(point.number, point.number, &ignored);
        return static_cast<int32_t>(MX_OK);
      });
      return static_cast<int32_t>(MX_OK);
    };
    api.release = [](void* self, mx_token* token) {
      static_cast<Device*>(self)->tokens.fetch_sub(1);
      delete token;
    };
    api.copy = [](void*, void* stream, void* to, mx_context, const void* from, mx_context,
                  size_t bytes, mx_error* error) {
      if (stream == nullptr) return mx::set_error(error, MX_ERROR, "a copy without a stream");
      const auto* target = static_cast<const char*>(to);
      const auto* source = static_cast<const char*>(from);
      if (target < source + bytes && source < target + bytes) {  // a GPU's copy is undefined then
        return mx::set_error(error, MX_ERROR, "a copy between places that overlap");
      }
      static_cast<Stream*>(stream)->add([=](mx_error*) {
        std::memcpy(to, from, bytes);
        return static_cast<int32_t>(MX_OK);
      });
      return static_cast<int32_t>(MX_OK);
    };
    api.memory = [](void*, int32_t, uint64_t* free_bytes, uint64_t* total, mx_error*) {
      *free_bytes = *total = uint64_t{1} << 30;
      return static_cast<int32_t>(MX_OK);
    };
  }
  mx_device_api api{};
  std::atomic<int64_t> tokens{0};  // alive
  std::atomic<int32_t> count{kDevices};  // that it says there are

 private:
  Stream streams_[kDevices * kLanes];
};

// Memory that is worthless the moment it is given back.
class DeviceStorage {
 public:
  DeviceStorage() {
    api.head = {sizeof api, MX_STORAGE_MAJOR, MX_STORAGE_MINOR};
    api.self = this;
    api.alloc = [](void* self, mx_context context, size_t bytes, const char*, mx_block* block,
                   mx_error* error) -> int32_t {
      auto* storage = static_cast<DeviceStorage*>(self);
      if (storage->bytes.fetch_add(static_cast<int64_t>(bytes)) + static_cast<int64_t>(bytes) >
          storage->limit) {
        storage->bytes.fetch_sub(static_cast<int64_t>(bytes));
        return mx::set_error(error, MX_ERROR_MEMORY, "the device is full");
      }
      *block = {std::aligned_alloc(64, (bytes + 64) / 64 * 64), bytes, context, nullptr};
      std::memset(block->data, 0xAB, bytes);
      return MX_OK;
    };
    api.free = [](void* self, const mx_block* block) {
      std::memset(block->data, 0xDD, block->bytes);
      std::free(block->data);
      static_cast<DeviceStorage*>(self)->bytes.fetch_sub(static_cast<int64_t>(block->bytes));
    };
    api.direct_free = api.free;
    api.release_all = [](void*, mx_context) {};
    api.stats = [](void*, mx_context, mx_storage_stats*, mx_error*) {
      return static_cast<int32_t>(MX_OK);
    };
    api.reset_peak = [](void*, mx_context) {};
    api.set_limit = [](void*, mx_context, uint64_t) {};
  }
  mx_storage_api api{};
  std::atomic<int64_t> bytes{0};  // in use
  std::atomic<int64_t> limit{int64_t{1} << 30};
};

// A plan of the host that runs on a stream, which is what a launch is.
class LaunchedPlan {
 public:
  static mx_plan* wrap(mx_plan* host) {
    auto* made = new LaunchedPlan;
    host->retain(host);
    made->host_ = host;
    made->plan_ = *host;
    made->plan_.head = {sizeof(mx_plan), MX_KERNEL_MAJOR, MX_KERNEL_MINOR};
    made->plan_.flags = 0;
    made->plan_.run = &LaunchedPlan::run;
    made->plan_.staging_bytes = [](const mx_plan* self, const uint8_t* req, uint32_t n_outputs) {
      return mx_plan_staging(of(self)->host_, req, n_outputs);
    };
    made->plan_.retain = [](mx_plan* self) { of(self)->references_.fetch_add(1); };
    made->plan_.release = [](mx_plan* self) {
      LaunchedPlan* plan = of(self);
      if (plan->references_.fetch_sub(1) != 1) return;
      plan->host_->release(plan->host_);
      delete plan;
    };
    return &made->plan_;
  }

 private:
  // What one launch keeps: a kernel's arguments are copied when it is launched.
  struct Arguments {
    mx_kernel_context context;
    std::vector<void*> scratch;
    std::vector<double> scalars;
    std::vector<mx_tensor> tensors;
    std::vector<std::vector<int64_t>> shapes;
    std::vector<uint8_t> req;
  };

  static LaunchedPlan* of(const mx_plan* plan) {
    return reinterpret_cast<LaunchedPlan*>(const_cast<mx_plan*>(plan));
  }

  static int32_t run(const mx_plan* self, const mx_kernel_context* context, const mx_tensor* inputs,
                     uint32_t n_inputs, const mx_tensor* outputs, const uint8_t* req,
                     uint32_t n_outputs, mx_error* error) {
    if (context->stream == nullptr) return mx::set_error(error, MX_ERROR, "a launch without a stream");
    auto arguments = std::make_shared<Arguments>();
    arguments->context = *context;
    arguments->scratch.assign(context->scratch, context->scratch + self->n_scratch);
    arguments->scalars.assign(context->scalars, context->scalars + context->n_scalars);
    arguments->tensors.assign(inputs, inputs + n_inputs);
    arguments->tensors.insert(arguments->tensors.end(), outputs, outputs + n_outputs);
    arguments->req.assign(req, req + n_outputs);
    for (mx_tensor& tensor : arguments->tensors) {
      arguments->shapes.emplace_back(tensor.shape, tensor.shape + tensor.ndim);
      tensor.shape = arguments->shapes.back().data();
    }
    arguments->context.scratch = arguments->scratch.data();
    arguments->context.scalars = arguments->scalars.data();
    arguments->context.threads = 1;
    mx_plan* host = of(self)->host_;
    host->retain(host);
    static_cast<Stream*>(context->stream)->add([=](mx_error* failure) {
      const int32_t status =
          host->run(host, &arguments->context, arguments->tensors.data(), n_inputs,
                    arguments->tensors.data() + n_inputs, arguments->req.data(), n_outputs, failure);
      host->release(host);
      return status;
    });
    return MX_OK;
  }

  mx_plan plan_{};  // first: a pointer to it is a pointer to this
  mx_plan* host_ = nullptr;
  std::atomic<int> references_{1};
};

}  // namespace fakes
