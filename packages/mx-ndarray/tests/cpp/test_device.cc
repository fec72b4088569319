// SPDX-License-Identifier: Apache-2.0
#include "device_loader.hpp"
#include "invoke.hpp"
#include "kernels.hpp"
#include "workspace.hpp"

using namespace kernels;
using fakes::DeviceLoader;
using fakes::kType;
using mx::nd::mode;
using mx::nd::Workspace;

namespace {

std::string refusal_of(mx_context context) {
  try {
    const int64_t one = 1;
    Array::create(context, MX_FLOAT32, Shape(1, &one));
  } catch (const mx::Error& error) {
    return error.what();
  }
  return "";
}

void devices_that_do_not_exist(DeviceLoader& loader) {
  CHECK(refusal_of({kType, 0}).empty());
  CHECK(refusal_of({kType, 2}) ==
        "[Context] type64(2) does not exist: there is type64(0) to type64(1)");
  CHECK(refusal_of({kType, -1}).find("does not exist") != std::string::npos);
  loader.table.count = 1;
  CHECK(refusal_of({kType, 1}) == "[Context] type64(1) does not exist: there is type64(0)");
  loader.table.count = 0;
  CHECK(refusal_of({kType, 0}) == "[Context] type64(0) does not exist: there is no device of this type");
  loader.table.count = fakes::kDevices;
  CHECK(refusal_of({MX_GPU, 0}) == "no device");
  CHECK(refusal_of({256, 0}).find("outside") != std::string::npos);
}

void* stream_of(DeviceLoader& loader) {
  void* stream = nullptr;
  mx_error error{};
  CHECK(loader.table.api.stream(&loader.table, 0, 0, &stream, &error) == MX_OK);
  return stream;
}

void workspaces_outlive_their_launch(DeviceLoader& loader) {
  auto* stream = static_cast<fakes::Stream*>(stream_of(loader));
  std::mutex gate;
  gate.lock();
  std::atomic<bool> intact{false};
  {
    Workspace workspace({kType, 0}, stream, 2);
    auto* memory = static_cast<uint8_t*>(workspace.take(64, "scratch"));
    CHECK(workspace.take(0, "scratch") == nullptr);
    memory[63] = 1;
    stream->add([&gate, &intact, memory](mx_error*) {
      std::lock_guard<std::mutex> wait(gate);
      intact = memory[63] == 1;
      return static_cast<int32_t>(MX_OK);
    });
  }
  mx::nd::reclaim_workspaces();
  CHECK(loader.memory.bytes == 64 && loader.table.tokens == 1);
  gate.unlock();
  while (!stream->reached(1)) std::this_thread::yield();
  mx::nd::reclaim_workspaces();
  CHECK(intact && loader.memory.bytes == 0 && loader.table.tokens == 0);
}

// What finished runs hold is taken back before memory is said to be full.
void full_devices_wait_for_workspaces(DeviceLoader& loader) {
  auto* stream = static_cast<fakes::Stream*>(stream_of(loader));
  loader.memory.limit = 100;
  {
    Workspace workspace({kType, 0}, stream, 2);
    workspace.take(80, "scratch");
    stream->add([](mx_error*) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return static_cast<int32_t>(MX_OK);
    });
  }
  {
    Workspace workspace({kType, 0}, stream, 2);
    workspace.take(80, "scratch");
    CHECK(loader.memory.bytes == 80);
    test::error_of([&] { workspace.take(80, "scratch"); });
  }
  loader.memory.limit = int64_t{1} << 30;
  while (loader.memory.bytes != 0) mx::nd::reclaim_workspaces();
}

void workspaces_of_the_host_go_back_at_once(DeviceLoader& loader) {
  const int before = loader.host.storage_.alive;
  {
    Workspace workspace({MX_CPU, 0}, nullptr, 1);
    workspace.take(8, "scratch");
    CHECK(loader.host.storage_.alive == before + 1);
  }
  CHECK(loader.host.storage_.alive == before);
}

void copies_have_the_priority_of_their_thread(DeviceLoader& loader) {
  Ref<Array> a = array({1, 2});
  Ref<Array> b = array({0, 0});
  mode().priority = 5;
  mx::nd::copy(*a, *b, nullptr);
  mode().priority = 0;
  mx::nd::copy(*b, *a, nullptr);
  loader.host.engine_.drain();
  const std::vector<mx_operation>& seen = loader.host.engine_.operations;
  CHECK(seen.size() == 2 && seen[0].priority == 5 && seen[1].priority == 0);
}

}  // namespace

int main() {
  DeviceLoader loader;
  devices_that_do_not_exist(loader);
  workspaces_outlive_their_launch(loader);
  full_devices_wait_for_workspaces(loader);
  workspaces_of_the_host_go_back_at_once(loader);
  copies_have_the_priority_of_their_thread(loader);
  loader.host.engine_.drain();
  CHECK(loader.host.storage_.alive == 0 && loader.memory.bytes == 0);
}
