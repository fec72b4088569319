// SPDX-License-Identifier: Apache-2.0
//
// An accelerator that is none: each stream is a thread that works off a queue, after random delays.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <random>
#include <string>
#include <thread>

#include "mx_core/device.h"
#include "mx_core/failure.hpp"

namespace test {

class FakeDevice {
 public:
  static constexpr int kLanes = 3;

  explicit FakeDevice(int32_t type = MX_FIRST_PLUGIN_DEVICE, int count = 2, int delay_us = 50)
      : delay_us_(delay_us) {
    for (int i = 0; i < count * kLanes; ++i) streams_.emplace_back(*this, static_cast<unsigned>(i));
    table_.head = {sizeof table_, MX_DEVICE_MAJOR, MX_DEVICE_MINOR};
    table_.self = this;
    table_.type = type;
    table_.count = [](void* self) { return static_cast<int32_t>(of(self).streams_.size() / kLanes); };
    table_.stream = [](void* self, int32_t id, int32_t lane, void** stream, mx_error*) -> int32_t {
      *stream = &of(self).streams_[static_cast<size_t>(id * kLanes + lane)];
      return MX_OK;
    };
    table_.record = [](void* self, void* stream, mx_token** token, mx_error* error) {
      return of(self).record(*static_cast<Stream*>(stream), token, error);
    };
    table_.reached = [](void*, mx_token* token) -> int32_t { return as_token(token)->reached; };
    table_.wait = [](void* self, mx_token* token, mx_error* error) {
      ++of(self).host_waits;
      return wait(as_token(token), error);
    };
    table_.stream_wait = [](void* self, void* stream, mx_token* token, mx_error*) -> int32_t {
      ++of(self).stream_waits;
      Token* awaited = retain(as_token(token));
      static_cast<Stream*>(stream)->enqueue([awaited] {
        wait(awaited, nullptr);
        release(awaited);
      });
      return MX_OK;
    };
    table_.release = [](void* self, mx_token* token) {
      --of(self).tokens;
      release(as_token(token));
    };
    table_.copy = [](void*, void*, void*, mx_context, const void*, mx_context, size_t,
                     mx_error* error) -> int32_t {
      return mx::set_error(error, MX_ERROR_UNSUPPORTED, "the fake device copies nothing");
    };
    table_.memory = [](void*, int32_t, uint64_t* free_bytes, uint64_t* total, mx_error*) -> int32_t {
      *free_bytes = *total = 0;
      return MX_OK;
    };
  }
  FakeDevice(const FakeDevice&) = delete;
  FakeDevice& operator=(const FakeDevice&) = delete;
  ~FakeDevice() { streams_.clear(); }

  const mx_device_api* table() const { return &table_; }
  mx_context context(int id = 0) const { return {table_.type, id}; }
  // Has the stream of a run context do something later.
  static void enqueue(void* stream, std::function<void()> work) {
    static_cast<Stream*>(stream)->enqueue(std::move(work));
  }
  // The next token that the calling thread records will turn out to have failed.
  static void fail_next_token(const std::string& text) { next_failure() = text; }

  std::atomic<int> stream_waits{0};
  std::atomic<int> host_waits{0};     // threads that have begun to wait for a token
  std::atomic<int> tokens{0};         // not released yet
  std::atomic<int> records_fail{0};   // so many of the next recordings are refused

 private:
  struct Token {
    explicit Token(std::string text) : failure(std::move(text)) {}
    const std::string failure;
    std::atomic<int> references{2};  // who recorded it, and the stream
    std::atomic<bool> reached{false};
    std::mutex mutex;
    std::condition_variable changed;
  };
  class Stream {
   public:
    Stream(FakeDevice& device, unsigned seed)
        : device_(device), random_(seed), thread_([this] { main(); }) {}
    ~Stream() {
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        closed_ = true;
      }
      changed_.notify_one();
      thread_.join();
    }
    void enqueue(std::function<void()> work) {
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        queue_.push_back(std::move(work));
      }
      changed_.notify_one();
    }

   private:
    void main() {
      for (;;) {
        std::function<void()> work;
        {
          std::unique_lock<std::mutex> lock(mutex_);
          changed_.wait(lock, [this] { return closed_ || !queue_.empty(); });
          if (queue_.empty()) return;
          work = std::move(queue_.front());
          queue_.pop_front();
        }
        if (device_.delay_us_ > 0 && random_() % 4 == 0) {
          const auto delay = random_() % static_cast<unsigned>(device_.delay_us_);
          std::this_thread::sleep_for(std::chrono::microseconds(delay));
        }
        work();
      }
    }
    FakeDevice& device_;
    std::mt19937 random_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> queue_;
    bool closed_ = false;
    std::thread thread_;
  };

  static FakeDevice& of(void* self) { return *static_cast<FakeDevice*>(self); }
  static Token* as_token(mx_token* token) { return reinterpret_cast<Token*>(token); }
  static std::string& next_failure() {
    thread_local std::string text;
    return text;
  }
  static Token* retain(Token* token) {
    ++token->references;
    return token;
  }
  static void release(Token* token) {
    if (--token->references == 0) delete token;
  }
  static int32_t wait(Token* token, mx_error* error) {
    std::unique_lock<std::mutex> lock(token->mutex);
    token->changed.wait(lock, [token] { return token->reached.load(); });
    return token->failure.empty() ? int32_t{MX_OK}
                                  : mx::set_error(error, MX_ERROR, token->failure.c_str());
  }
  int32_t record(Stream& stream, mx_token** token, mx_error* error) {
    if (records_fail.load() > 0 && --records_fail >= 0) {
      return mx::set_error(error, MX_ERROR, "the device records nothing more");
    }
    auto* made = new Token(std::exchange(next_failure(), {}));
    ++tokens;
    stream.enqueue([made] {
      {
        const std::lock_guard<std::mutex> lock(made->mutex);
        made->reached = true;
        made->changed.notify_all();
      }
      release(made);
    });
    *token = reinterpret_cast<mx_token*>(made);
    return MX_OK;
  }

  const int delay_us_;
  mx_device_api table_{};
  std::deque<Stream> streams_;
};

}  // namespace test
