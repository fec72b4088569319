// SPDX-License-Identifier: Apache-2.0
//
// Accelerators the engine was taught, their streams, and who watches the streams.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "in_flight.hpp"
#include "mx_core/device.h"
#include "variable.hpp"
#include "worker_pool.hpp"

namespace mx::engine {

// Told of every in-flight operation whose token is reached, on the thread that saw it.
class TokenListener {
 public:
  // Takes the stream's reference to the operation; `failure`, a reference, is the token's.
  virtual void token_reached(InFlight* in_flight, mx_failure* failure) noexcept = 0;

 protected:
  ~TokenListener() = default;
};

// One stream of a device.  A thread of its own, made when there is something to watch, waits for
// the tokens in the order they were recorded; without any it sleeps.
class Stream {
 public:
  Stream(TokenListener& listener, const mx_device_api* device, mx_context context, int32_t lane,
         void* handle)
      : device(device), context(context), lane(lane), handle(handle), listener_(listener) {
    turn_.orders_only = 1;
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // The operation's token was recorded: it is watched from now on.  Takes a reference.
  void watch(InFlight* in_flight) noexcept;
  // The watching thread ends once nothing is left to watch; `watch` brings another one.  Whether
  // that was done in time.  Blocks.
  bool stop(std::chrono::steady_clock::time_point deadline) noexcept;
  // Whether operations are launched in the order in which they are pushed, and what they use is noted.
  void keep_order(bool on, bool notes) noexcept {
    in_order_.store(on, std::memory_order_relaxed);
    notes_.store(notes, std::memory_order_relaxed);
  }
  bool notes() const noexcept { return notes_.load(std::memory_order_relaxed); }
  // Pins what the operation uses, all of which is locked, until it is taken and `Variables::forget`.
  void note(const Block& block) noexcept;
  // What was noted; false when memory was exhausted meanwhile.
  bool take_noted(std::vector<Variable*>& noted) noexcept;
  // It is noted still, unless something else is.
  void give_back_noted(std::vector<Variable*>& noted) noexcept;
  // What an operation is to write for that; NULL where it takes its own turn.
  Variable* turn(const mx_operation& operation) noexcept {
    const bool takes_turns = operation.run != nullptr && (operation.flags & MX_PUSH_PYTHON) == 0;
    return takes_turns && in_order_.load(std::memory_order_relaxed) ? &turn_ : nullptr;
  }
  // What it waits for now goes to `found`.
  void running(std::vector<Running>& found);
  // Whether the calling thread watches a stream.
  static bool watching() noexcept;
  // It ends after the token it waits for now.
  void abandon() noexcept;
  void lock_for_fork() noexcept { mutex_.lock(); }
  void unlock_after_fork(bool child) noexcept;

  const mx_device_api* const device;
  const mx_context context;
  const int32_t lane;
  void* const handle;
  std::atomic<int64_t> last_completion{0};  // in nanoseconds; while profiled

 private:
  void main() noexcept;
  InFlight* pop() noexcept;
  void await_token(InFlight* in_flight) noexcept;

  TokenListener& listener_;
  std::atomic<bool> in_order_{false}, notes_{false};
  Variable turn_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable work_;
  InFlight* head_ = nullptr;
  InFlight* tail_ = nullptr;
  const Block* awaited_ = nullptr;  // the operation whose token is waited for
  bool ended_ = false;              // the thread is about to
  uint8_t stopping_ = 0;            // calls of `stop` that wait for it
  bool abandoned_ = false;
  std::unique_ptr<std::thread> thread_;
  std::vector<Variable*> noted_;
  bool notes_are_whole_ = true;
};

// The accelerators of one engine.  Only ever grows.  Threads: any.
class Devices {
 public:
  explicit Devices(TokenListener& listener) noexcept : listener_(listener) {}
  Devices(const Devices&) = delete;
  Devices& operator=(const Devices&) = delete;
  ~Devices();

  int32_t attach(const mx_device_api* device, mx_error* error) noexcept;
  // The stream for operations of a context; NULL, with the error set, when there is none.
  Stream* find(mx_context context, int32_t property, mx_error* error) noexcept;

  bool stop(std::chrono::steady_clock::time_point deadline) noexcept;
  void running(std::vector<Running>& found);
  void abandon() noexcept;
  void lock_for_fork() noexcept;
  void unlock_after_fork(bool child) noexcept;

 private:
  struct Device {
    const mx_device_api* table;
    Device* next;
  };
  struct Node {
    Stream stream;
    Node* next;
  };
  const mx_device_api* table_of(int32_t type) const noexcept;
  Stream* known(mx_context context, int32_t lane) const noexcept;
  template <class Action>
  void each(Action action) noexcept {
    for (Node* at = streams_.load(std::memory_order_acquire); at != nullptr; at = at->next) {
      action(at->stream);
    }
  }

  TokenListener& listener_;
  std::mutex mutex_;  // held to add to the lists, which are read without it
  std::atomic<Device*> devices_{nullptr};
  std::atomic<Node*> streams_{nullptr};
};

}  // namespace mx::engine
