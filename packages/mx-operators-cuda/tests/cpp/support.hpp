// SPDX-License-Identifier: Apache-2.0
//
// The device table in C++ clothes.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "device_table.hpp"
#include "fake_cuda.hpp"
#include "mx_core/native_tests.hpp"
#include "storage_manager.hpp"

namespace test {

constexpr mx_context kCpu{MX_CPU, 0};
constexpr mx_context kGpu{MX_GPU, 0};
constexpr mx_context kOther{MX_GPU, 1};

// The device table; what fails aborts, unless the message is asked for.
class Device {
 public:
  const mx_device_api* operator->() const { return table_; }
  void* stream(int32_t id = 0, int32_t lane = 0) const {
    void* made = nullptr;
    passes([&](mx_error* e) { return table_->stream(table_->self, id, lane, &made, e); });
    return made;
  }
  mx_token* record(void* stream) const {
    mx_token* token = nullptr;
    passes([&](mx_error* e) { return table_->record(table_->self, stream, &token, e); });
    return token;
  }
  bool reached(mx_token* token) const { return table_->reached(table_->self, token) != 0; }
  void wait(mx_token* token) const {
    passes([&](mx_error* e) { return table_->wait(table_->self, token, e); });
  }
  void stream_wait(void* stream, mx_token* token) const {
    passes([&](mx_error* e) { return table_->stream_wait(table_->self, stream, token, e); });
  }
  void release(mx_token* token) const { table_->release(table_->self, token); }
  void copy(void* stream, void* to, mx_context there, const void* from, mx_context here,
            size_t bytes) const {
    passes([&](mx_error* e) {
      return table_->copy(table_->self, stream, to, there, from, here, bytes, e);
    });
  }
  // Waits until a stream is empty.
  void drain(void* stream) const {
    mx_token* token = record(stream);
    wait(token);
    release(token);
  }
  static void passes(const std::function<int32_t(mx_error*)>& call) {
    const std::string message = refusal(call);
    if (message.empty()) return;
    std::fprintf(stderr, "unexpected: %s\n", message.c_str());
    std::abort();
  }
  // What a call says when it fails; empty when it does not.
  static std::string refusal(const std::function<int32_t(mx_error*)>& call) {
    mx_error error{};
    return call(&error) == MX_OK ? "" : error.message;
  }

 private:
  const mx_device_api* table_ = mx::cuda::device_table();
};

// A storage manager seen through its table only.
class Memory {
 public:
  explicit Memory(mx::cuda::PoolType pool = mx::cuda::PoolType::kPooled,
                  mx_device_type type = MX_GPU, int reserve = 0)
      : manager_(type, pool, reserve) {}
  const mx_storage_api* operator->() const { return manager_.table(); }
  void* self() const { return manager_.table()->self; }
  std::string refusal(size_t bytes, mx_context context = kGpu) const {
    mx_block block{};
    return Device::refusal([&](mx_error* e) {
      return manager_.table()->alloc(self(), context, bytes, "test", &block, e);
    });
  }
  mx_block alloc(size_t bytes, mx_context context = kGpu) const {
    mx_block block{};
    Device::passes([&](mx_error* e) {
      return manager_.table()->alloc(self(), context, bytes, "test", &block, e);
    });
    CHECK(block.bytes == bytes && reinterpret_cast<uintptr_t>(block.data) % 64 == 0);
    return block;
  }
  void free(const mx_block& block) const { manager_.table()->free(self(), &block); }
  mx_storage_stats stats(mx_context context = kGpu) const {
    mx_storage_stats stats{};
    Device::passes(
        [&](mx_error* e) { return manager_.table()->stats(self(), context, &stats, e); });
    return stats;
  }

 private:
  mx::cuda::StorageManager manager_;
};

// Every scenario finds the fake devices whole.
inline int run_healing(Scenarios scenarios) {
  return run(scenarios, [] {
    fake_heal();
    fake_delay(0);
  });
}

}  // namespace test
