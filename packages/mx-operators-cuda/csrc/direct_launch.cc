// SPDX-License-Identifier: Apache-2.0
#include "direct_launch.hpp"

#include <tuple>
#include <utility>

#include "array_task.hpp"
#include "captured_step.hpp"
#include "mx_core/failure.hpp"

namespace mx::cuda {
namespace {

std::vector<Use> uses_of(const std::vector<Argument>& arguments) {
  std::vector<Use> uses;
  for (const Argument& one : arguments) {
    if (one.array != nullptr) uses.push_back({one.array, one.written});
  }
  return uses;
}

class LaunchTask final : public ArrayTask {
 public:
  LaunchTask(const mx_invoke_api* invoke, DirectLaunch launch)
      : ArrayTask(invoke, uses_of(launch.arguments)), launch_(std::move(launch)) {}

  // The kernel is loaded, and the arrays are on its GPU.
  void check_launch(const Gpu& gpu) const {
    launch_.kernel->allow_shared(gpu, launch_.shared_bytes);
    size_t number = 0;
    for (size_t i = 0; i < launch_.arguments.size(); ++i) {
      if (launch_.arguments[i].array == nullptr) continue;
      const mx_context place = tensor(number++).context;
      if (place.type == MX_GPU && place.id == gpu.id()) continue;
      throw Error(MX_ERROR_VALUE, "[" + where(gpu) + "] argument " + std::to_string(i) + " lies on " + name_of(place));
    }
  }

  void run(const mx_run_context& context) const override {
    const Gpu& gpu = Gpu::at(launch_.gpu);  // refuses in a forked child
    if (const auto step = gpu.recorded()) step->record_unknown("a kernel of the program");
    std::vector<uint64_t> values;
    std::vector<void*> pointers;
    size_t number = 0;
    for (const Argument& one : launch_.arguments) {
      values.push_back(one.array == nullptr ? one.bits : reinterpret_cast<uintptr_t>(tensor(number++, true).data));
    }
    for (uint64_t& value : values) pointers.push_back(&value);
    const auto& [grid, block] = std::tie(launch_.grid, launch_.block);
    const Current current(gpu);
    check(gpu.cuda().launch(launch_.kernel->on(gpu), grid[0], grid[1], grid[2], block[0], block[1], block[2],
                            launch_.shared_bytes, static_cast<Stream>(context.stream), pointers.data(), nullptr),
          where(gpu), "cuLaunchKernel");
  }

 private:
  std::string where(const Gpu& gpu) const { return launch_.name + "] [" + gpu.name(); }

  const DirectLaunch launch_;
};

}  // namespace

void push(const mx_engine_api* engine, const mx_invoke_api* invoke, DirectLaunch launch, int32_t priority) {
  const Gpu& gpu = Gpu::at(launch.gpu);
  const std::string name = launch.name;
  auto task = std::make_unique<LaunchTask>(invoke, std::move(launch));
  task->check_launch(gpu);
  push(engine, std::move(task), name, gpu.id(), priority);
}

}  // namespace mx::cuda
