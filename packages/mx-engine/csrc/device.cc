// SPDX-License-Identifier: Apache-2.0
#include "device.hpp"

#include <cstdio>
#include <new>
#include <utility>

#include "mx_core/failure.hpp"

namespace mx::engine {
namespace {

thread_local bool watching_thread = false;

}  // namespace

void release(InFlight* in_flight) noexcept {
  if (in_flight->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (in_flight->token != nullptr) {
    const mx_device_api* device = in_flight->stream->device;
    device->release(device->self, in_flight->token);
  }
  delete in_flight;
}

void Stream::watch(InFlight* in_flight) noexcept {
  retain(in_flight);
  in_flight->next = nullptr;
  bool watched = true;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (ended_) {  // after a stop
      thread_->join();
      thread_ = nullptr;
      ended_ = false;
    }
    if (thread_ == nullptr && !abandoned_) {
      try {
        thread_ = std::make_unique<std::thread>([this] { main(); });
      } catch (...) {  // no memory or no more threads
        watched = false;
      }
    }
    if (watched) {
      const bool idle = head_ == nullptr;
      *(idle ? &head_ : &tail_->next) = in_flight;
      tail_ = in_flight;
      if (idle) work_.notify_one();
    }
  }
  if (!watched) await_token(in_flight);
}

void Stream::await_token(InFlight* in_flight) noexcept {
  mx_error error{};
  const int32_t status = device->wait(device->self, in_flight->token, &error);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    awaited_ = nullptr;
  }
  listener_.token_reached(
      in_flight, status == MX_OK ? nullptr
                              : make_failure(static_cast<mx_status>(status), error.message));
}

// Blocks; NULL when the thread is to end.
InFlight* Stream::pop() noexcept {
  std::unique_lock<std::mutex> lock(mutex_);
  work_.wait(lock, [this] { return head_ != nullptr || stopping_ || abandoned_; });
  if (abandoned_ || head_ == nullptr) {
    ended_ = true;
    return nullptr;
  }
  InFlight* in_flight = head_;
  head_ = in_flight->next;
  awaited_ = in_flight->block;
  return in_flight;
}

bool Stream::watching() noexcept { return watching_thread; }

void Stream::note(const Block& block) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (uint32_t i = 0; i < block.n_entries; ++i) {
    Variable* variable = block.entries[i].variable;
    if (variable->noted || variable->orders_only) continue;
    try {
      noted_.push_back(variable);
    } catch (...) {
      notes_are_whole_ = false;
      return;
    }
    variable->noted = 1;
    ++variable->pins;
  }
}

bool Stream::take_noted(std::vector<Variable*>& noted) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  noted.swap(noted_);
  return std::exchange(notes_are_whole_, true);
}

void Stream::give_back_noted(std::vector<Variable*>& noted) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (noted_.empty()) noted.swap(noted_);
}

void Stream::main() noexcept {
  watching_thread = true;
  while (InFlight* in_flight = pop()) await_token(in_flight);
}

bool Stream::stop(std::chrono::steady_clock::time_point deadline) noexcept {
  std::unique_lock<std::mutex> lock(mutex_);
  ++stopping_;
  work_.notify_one();
  lock.unlock();
  const bool stopped = poll_until(deadline, [&] {
    const std::lock_guard<std::mutex> guard(mutex_);
    return thread_ == nullptr || ended_;
  });
  lock.lock();
  --stopping_;
  if (thread_ == nullptr || !ended_) return stopped;
  const std::unique_ptr<std::thread> thread = std::move(thread_);
  ended_ = false;
  lock.unlock();
  thread->join();
  return stopped;
}

void Stream::running(std::vector<Running>& found) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (awaited_ != nullptr) found.push_back({awaited_->name, awaited_->origin});
}

void Stream::abandon() noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  abandoned_ = true;
  work_.notify_one();
}

void Stream::unlock_after_fork(bool child) noexcept {
  if (child) {  // the thread, what it watched and who waited for it are the parent's
    static_cast<void>(thread_.release());
    head_ = tail_ = nullptr;
    awaited_ = nullptr;
    stopping_ = 0;
    ended_ = false;
    keep_order(false, false);
    noted_.clear();  // what they pin stays
    new (&turn_) Variable;  // turns that were taken stay taken
    turn_.orders_only = 1;
    new (&work_) std::condition_variable;
  }
  mutex_.unlock();
}

Devices::~Devices() {
  for (Device* at = devices_.load(); at != nullptr;) delete std::exchange(at, at->next);
  for (Node* at = streams_.load(); at != nullptr;) delete std::exchange(at, at->next);
}

const mx_device_api* Devices::table_of(int32_t type) const noexcept {
  const Device* at = devices_.load(std::memory_order_acquire);
  while (at != nullptr && at->table->type != type) at = at->next;
  return at == nullptr ? nullptr : at->table;
}

int32_t Devices::attach(const mx_device_api* device, mx_error* error) noexcept {
  if (device->head.major != MX_DEVICE_MAJOR || device->head.size < MX_DEVICE_SIZE_1_0) {
    return set_error(error, MX_ERROR_ABI, "[attach_device] the device's table is of another interface");
  }
  char text[sizeof error->message];
  if (device->type <= 0 || mx_on_host({device->type, 0})) {
    std::snprintf(text, sizeof text,
                  "[attach_device] type: expected that of an accelerator, got %d", device->type);
    return set_error(error, MX_ERROR_VALUE, text);
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (const mx_device_api* known = table_of(device->type)) {
    if (known == device) return MX_OK;
    std::snprintf(text, sizeof text,
                  "[attach_device] type: another device of type %d is attached already",
                  device->type);
    return set_error(error, MX_ERROR_VALUE, text);
  }
  auto* added = new (std::nothrow) Device{device, devices_.load(std::memory_order_relaxed)};
  if (added == nullptr) {
    return set_error(error, MX_ERROR_MEMORY, "[attach_device] out of host memory");
  }
  devices_.store(added, std::memory_order_release);
  return MX_OK;
}

Stream* Devices::known(mx_context context, int32_t lane) const noexcept {
  Node* at = streams_.load(std::memory_order_acquire);
  while (at != nullptr && (at->stream.context.type != context.type ||
                           at->stream.context.id != context.id || at->stream.lane != lane)) {
    at = at->next;
  }
  return at == nullptr ? nullptr : &at->stream;
}

Stream* Devices::find(mx_context context, int32_t property, mx_error* error) noexcept {
  const int32_t lane = property == MX_FN_COPY_TO_DEVICE     ? 1
                       : property == MX_FN_COPY_FROM_DEVICE ? 2
                                                            : 0;
  if (Stream* stream = known(context, lane)) return stream;
  char text[sizeof error->message];
  const mx_device_api* device = table_of(context.type);
  if (device == nullptr) {
    std::snprintf(text, sizeof text,
                  "context: no device of type %d is attached to the engine", context.type);
    set_error(error, MX_ERROR_VALUE, text);
    return nullptr;
  }
  const int32_t count = device->count(device->self);
  if (context.id < 0 || context.id >= count) {
    std::snprintf(text, sizeof text, "context: expected one of %d devices of type %d, got %d",
                  count, context.type, context.id);
    set_error(error, MX_ERROR_VALUE, text);
    return nullptr;
  }
  void* handle = nullptr;
  mx_error cause{};
  if (const int32_t status = device->stream(device->self, context.id, lane, &handle, &cause)) {
    set_error(error, static_cast<mx_status>(status), cause.message);
    return nullptr;
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (Stream* stream = known(context, lane)) return stream;
  auto* node = new (std::nothrow)
      Node{{listener_, device, context, lane, handle}, streams_.load(std::memory_order_relaxed)};
  if (node == nullptr) {
    set_error(error, MX_ERROR_MEMORY, "out of host memory");
    return nullptr;
  }
  streams_.store(node, std::memory_order_release);
  return &node->stream;
}

bool Devices::stop(std::chrono::steady_clock::time_point deadline) noexcept {
  bool stopped = true;
  each([&](Stream& stream) { stopped &= stream.stop(deadline); });
  return stopped;
}

void Devices::running(std::vector<Running>& found) {
  each([&](Stream& stream) { stream.running(found); });
}

void Devices::abandon() noexcept {
  each([](Stream& stream) { stream.abandon(); });
}

void Devices::lock_for_fork() noexcept {
  mutex_.lock();
  each([](Stream& stream) { stream.lock_for_fork(); });
}

void Devices::unlock_after_fork(bool child) noexcept {
  each([child](Stream& stream) { stream.unlock_after_fork(child); });
  mutex_.unlock();
}

}  // namespace mx::engine
