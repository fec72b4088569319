// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "support.hpp"

namespace test {
namespace {

void copies_arrive() {
  const Device device;
  const Memory memory;
  CHECK(device->count(device->self) == 2 && device->type == MX_GPU);
  std::vector<int> sent{1, 2, 3, 4}, got(4);
  const mx_block here = memory.alloc(16), there = memory.alloc(16, kOther);
  void* stream = device.stream();
  device.copy(stream, here.data, kGpu, sent.data(), kCpu, 16);
  device.copy(stream, there.data, kOther, here.data, kGpu, 16);
  device.copy(stream, here.data, kGpu, there.data, kOther, 16);
  device.copy(stream, got.data(), kCpu, here.data, kGpu, 16);
  device.copy(stream, nullptr, kGpu, nullptr, kCpu, 0);
  device.drain(stream);
  CHECK(got == sent);
  CHECK(fake_calls("cuCtxEnablePeerAccess") == 1);
  uint64_t free_bytes = 0, total = 0;
  Device::passes(
      [&](mx_error* e) { return device->memory(device->self, 1, &free_bytes, &total, e); });
  CHECK(free_bytes < total && total == uint64_t{256} << 20);
  memory.free(here);
  memory.free(there);
}

void tokens_order_streams() {
  const Device device;
  const Memory memory;
  fake_delay(2000);
  const mx_block block = memory.alloc(8);
  void *in = device.stream(0, 1), *out = device.stream(0, 2);
  CHECK(in != out && in == device.stream(0, 1));
  int64_t sent = 42, got = 0;
  device.copy(in, block.data, kGpu, &sent, kCpu, 8);
  mx_token* written = device.record(in);
  CHECK(!device.reached(written));
  device.stream_wait(out, written);
  device.stream_wait(in, written);
  device.copy(out, &got, kCpu, block.data, kGpu, 8);
  mx_token* read = device.record(out);
  device.wait(read);
  CHECK(device.reached(read) && device.reached(written) && got == 42);
  device.release(written);
  device.release(read);
  memory.free(block);
}

void a_token_may_be_used_again_while_a_stream_waits() {
  const Device device;
  fake_delay(500);
  void *a = device.stream(0, 0), *b = device.stream(0, 1);
  const long made = fake_calls("cuEventCreate");
  for (int i = 0; i < 20; ++i) {
    mx_token* token = device.record(a);
    device.stream_wait(b, token);
    device.release(token);
  }
  CHECK(fake_calls("cuEventCreate") - made <= 1);
  device.drain(b);
}

void threads_share_a_device() {
  const Device device;
  const Memory memory;
  fake_delay(20);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const mx_context context{MX_GPU, t % 2};
      for (int i = 0; i < 50; ++i) {
        void* stream = device.stream(t % 2, i % 3);
        int sent = 1000 * t + i, got = 0;
        const mx_block block = memory.alloc(4, context);
        device.copy(stream, block.data, context, &sent, kCpu, 4);
        device.copy(stream, &got, kCpu, block.data, context, 4);
        device.drain(stream);
        CHECK(got == sent);
        memory.free(block);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void refusals_say_what_is_wrong() {
  const Device device;
  void* stream = nullptr;
  const auto asked = [&](int32_t id, int32_t lane) {
    return Device::refusal(
        [&](mx_error* e) { return device->stream(device->self, id, lane, &stream, e); });
  };
  CHECK(has(asked(7, 0), "there is no gpu(7): this machine has gpu(0) to gpu(1)"));
  CHECK(has(asked(0, 3), "[gpu(0)] lane: expected 0"));
  int local = 0;
  mx_token* token = nullptr;
  CHECK(has(Device::refusal(
                [&](mx_error* e) { return device->record(device->self, &local, &token, e); }),
            "none of the device's"));
  const auto copied = [&](void* to, mx_context there, const void* from, mx_context here) {
    return Device::refusal([&](mx_error* e) {
      return device->copy(device->self, device.stream(), to, there, from, here, 4, e);
    });
  };
  CHECK(has(copied(&local, kCpu, &local, kCpu), "[cpu(0) to cpu(0)] neither side"));
  CHECK(copied(&local, kGpu, &local, kCpu) ==
        "[cpu(0) to gpu(0)] cuMemcpyHtoDAsync: CUDA_ERROR_INVALID_VALUE (1): invalid argument");
}

void a_lost_context_is_told_by_the_wait() {
  const Device device;
  const Memory memory;
  const mx_block block = memory.alloc(4);
  fake_fail("cuMemcpyDtoHAsync_v2", 719, 0);
  int got = 0;
  const std::string at_once = Device::refusal([&](mx_error* e) {
    return device->copy(device->self, device.stream(), &got, kCpu, block.data, kGpu, 4, e);
  });
  CHECK(has(at_once, "CUDA_ERROR_LAUNCH_FAILED (719)") && has(at_once, "start it again"));
  mx_token* token = nullptr;
  CHECK(!Device::refusal([&](mx_error* e) {
           return device->record(device->self, device.stream(), &token, e);
         }).empty());
  fake_heal();
  memory.free(block);
}

void a_forked_child_is_refused() {
  const Device device;
  const Memory memory;
  const mx_block block = memory.alloc(4);
  mx_token* token = device.record(device.stream());
  const pid_t child = ::fork();
  if (child == 0) {
    void* stream = nullptr;
    const std::string said = Device::refusal(
        [&](mx_error* e) { return device->stream(device->self, 0, 0, &stream, e); });
    const bool fine = has(said, "forked") && has(said, "spawn") && has(memory.refusal(4), "spawn") &&
                      device->count(device->self) == 0 && device.reached(token);
    memory.free(block);
    device.release(token);
    ::_exit(fine ? 0 : 1);
  }
  int status = 1;
  CHECK(::waitpid(child, &status, 0) == child && status == 0);
  device.wait(token);
  device.release(token);
  memory.free(block);
}

}  // namespace
}  // namespace test

int main() {
  using namespace test;
  return run_healing({{"copies arrive", copies_arrive},
              {"tokens order streams", tokens_order_streams},
              {"a token may be used again", a_token_may_be_used_again_while_a_stream_waits},
              {"threads share a device", threads_share_a_device},
              {"refusals say what is wrong", refusals_say_what_is_wrong},
              {"a lost context is told", a_lost_context_is_told_by_the_wait},
              {"a forked child is refused", a_forked_child_is_refused}});
}
