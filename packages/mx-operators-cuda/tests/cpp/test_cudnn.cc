// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <thread>

#include "convolution_graph.hpp"
#include "launch_plan.hpp"
#include "support.hpp"

namespace test {
namespace {

using mx::cuda::Convolved;
using mx::cuda::Current;
using mx::cuda::Gpu;
using mx::cuda::Kernel;
using mx::cuda::Launch;
using mx::cuda::LaunchPlan;
using mx::cuda::Parameter;
using mx::cuda::dnn::Choice;
using mx::cuda::dnn::Convolution;
using mx::cuda::dnn::ConvolutionPlan;

// One example of 1 x 1 x 4, a filter of 1 x 2.
Convolution row(Convolution::Result result = Convolution::kY) {
  return {result, MX_FLOAT32, false, false, false, {1, 1, 1, 4}, {1, 1, 1, 2}, {1, 1, 1, 3}, {1, 1}, {1, 1}, {0, 0}};
}
constexpr Choice kAny{1 << 20, false};

std::shared_ptr<ConvolutionPlan> planned(const Convolution& what, const Choice& choice = kAny) {
  const Gpu& gpu = Gpu::at(0);
  const Current current(gpu);
  return std::make_shared<ConvolutionPlan>(what, choice, &gpu, "");
}

std::string refusal(const std::function<void()>& body) {
  return Device::refusal([&](mx_error* error) { return mx::guarded(error, body); });
}

void a_library_that_is_none() {
  CHECK(has(refusal([] { mx::cuda::dnn::functions(); }), "cuDNN is not loaded"));
  CHECK(has(refusal([] { mx::cuda::dnn::load("/nowhere/libcudnn.so"); }), "cuDNN: /nowhere"));
  CHECK(has(refusal([] { mx::cuda::dnn::load(std::getenv("MX_CUBLAS")); }), "has no cudnnGetVersion"));
  ::setenv("FAKE_CUDNN_VERSION", "8907", 1);
  CHECK(has(refusal([] { mx::cuda::dnn::load(std::getenv("MX_CUDNN")); }), "has version 8907, 9 is needed"));
  ::unsetenv("FAKE_CUDNN_VERSION");
  CHECK(mx::cuda::dnn::load(std::getenv("MX_CUDNN")) == 91900);
}

// The first engine that neither rounds nor adds up in no fixed order; TensorFloat-32 where it is wanted.
void engines_are_chosen() {
  CHECK(planned(row())->engine() == 2 && planned(row())->passed_over() == 2);
  CHECK(planned(row(), {1 << 20, true})->engine() == 1);
  Convolution half = row();
  half.dtype = MX_FLOAT16;
  CHECK(planned(half)->engine() == 1);
  CHECK(has(refusal([] { planned(row(), {100, false}); }), "needs 1000 bytes of workspace, of which 100 are allowed"));
  CHECK(ConvolutionPlan(row(), kAny, nullptr, "{}").workspace() == 1000);  // of a described GPU
}

void what_is_malformed_is_refused() {
  Convolution what = row();
  what.dtype = MX_INT32;
  CHECK(has(refusal([&] { planned(what); }), "type code"));
  what = row();
  what.y[3] = 4;
  CHECK(has(refusal([&] { planned(what); }), "CUDNN_STATUS_BAD_PARAM (2000): extents do not fit together"));
  what = row();
  what.stride = {1};
  CHECK(has(refusal([&] { planned(what); }), "two or three spatial axes"));
  what = row();
  what.bias = what.add = true;
  CHECK(has(refusal([&] { planned(what); }), "with a bias is not added"));
  ::setenv("FAKE_CUDNN_REFUSES", "x", 1);
  CHECK(has(refusal([] { planned(row(Convolution::kX)); }), "[cuDNN gradient of data] no engine serves (of 0)"));
  ::unsetenv("FAKE_CUDNN_REFUSES");
}

// In place of the convolution: marks the result.
void mark(unsigned, unsigned, void** arguments) {
  const auto address = *static_cast<uint64_t*>(arguments[0]);
  *reinterpret_cast<float*>(address & ~kFakeDeviceBit) = -1;
}

mx::cuda::LaunchSpec spec(std::shared_ptr<ConvolutionPlan> added, size_t instead = 1) {
  static const size_t sizes[] = {8};
  fake_register("mark", mark, sizes, 1);
  static const auto kernel = std::make_shared<Kernel>("mark", "FAKE:registered");
  const Parameter x{Parameter::kInput, 0}, w{Parameter::kInput, 1}, y{Parameter::kOutput, 0};
  return {"conv", 0, {1256}, 0, true, {},
          {Convolved{planned(row()), std::move(added), {x, w, y}, y, {Parameter::kScratch, 0}, instead},
           Launch{kernel, 1, 32, 0, {y}}}};
}

const mx::Signature kSignature{{mx::Spec({4}, MX_FLOAT32), mx::Spec({2}, MX_FLOAT32)}, {mx::Spec({3}, MX_FLOAT32)}, 0};

// The kernel runs in place of a convolution that cuDNN cannot add, or whose data are not aligned; else it does not.
void steps_in_its_place() {
  Convolution adding = row();
  adding.add = true;
  const Device device;
  const Memory memory;
  void* stream = device.stream(0);
  const mx_block x = memory.alloc(32), w = memory.alloc(8), y = memory.alloc(16), scratch = memory.alloc(4096);
  const std::vector<float> given{9, 1, 2, 3, 4, 9, 9, 9}, filter{1, 10};
  device.copy(stream, w.data, kGpu, filter.data(), kCpu, 8);
  for (const bool has_added : {false, true}) {
    auto* plan = new LaunchPlan(kSignature, spec(has_added ? planned(adding) : nullptr));
    const auto run = [&](uint8_t request, size_t shift) {
      const std::vector<float> before{100, 100, 100};
      device.copy(stream, static_cast<char*>(x.data) + shift, kGpu, given.data() + 1, kCpu, 16);
      device.copy(stream, y.data, kGpu, before.data(), kCpu, 12);
      mx_kernel_context context{};
      context.size = sizeof context;
      context.context = kGpu;
      context.stream = stream;
      void* pieces[] = {scratch.data};
      context.scratch = pieces;
      const int64_t four = 4, two = 2, three = 3;
      const mx_tensor in[] = {{static_cast<char*>(x.data) + shift, &four, 16, kGpu, MX_FLOAT32, 1, 0},
                              {w.data, &two, 8, kGpu, MX_FLOAT32, 1, 0}};
      const mx_tensor out{y.data, &three, 12, kGpu, MX_FLOAT32, 1, 0};
      Device::passes([&](mx_error* e) { return plan->run(plan, &context, in, 2, &out, &request, 1, e); });
      std::vector<float> got(3);
      device.copy(stream, got.data(), kCpu, y.data, kGpu, 12);
      device.drain(stream);
      return got;
    };
    CHECK((run(MX_REQ_WRITE, 0) == std::vector<float>{21, 32, 43}));
    CHECK((run(MX_REQ_NULL, 0) == std::vector<float>{100, 100, 100}));
    CHECK((run(MX_REQ_WRITE, 4) == std::vector<float>{-1, 100, 100}));
    CHECK((run(MX_REQ_ADD, 0) == (has_added ? std::vector<float>{121, 132, 143} : std::vector<float>{-1, 100, 100})));
    plan->release(plan);
  }
  CHECK(has(refusal([] { LaunchPlan(kSignature, spec(nullptr, 2)); }), "malformed convolution"));
  for (const mx_block& block : {x, w, y, scratch}) memory.free(block);
}

// Threads share a handle and a plan: each convolution is whole.
void threads_convolve() {
  const auto plan = planned(row());
  const Device device;
  const Memory memory;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const Gpu& gpu = Gpu::at(0);
      void* stream = device.stream(0, t % 3);
      const auto n = static_cast<float>(t);
      const std::vector<float> x{n, n, n, n}, w{1, 1};
      const mx_block on_x = memory.alloc(16), on_w = memory.alloc(8), on_y = memory.alloc(12);
      const mx_block space = memory.alloc(2048);
      device.copy(stream, on_x.data, kGpu, x.data(), kCpu, 16);
      device.copy(stream, on_w.data, kGpu, w.data(), kCpu, 8);
      for (int i = 0; i < 50; ++i) {
        {
          const Current current(gpu);
          plan->run(gpu, static_cast<mx::cuda::Stream>(stream), {on_x.data, on_w.data, on_y.data}, space.data, "test");
        }
        std::vector<float> y(3);
        device.copy(stream, y.data(), kCpu, on_y.data, kGpu, 12);
        device.drain(stream);
        CHECK((y == std::vector<float>{2 * n, 2 * n, 2 * n}));
      }
      for (const mx_block& block : {on_x, on_w, on_y, space}) memory.free(block);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void a_refused_run_is_told() {
  const Gpu& gpu = Gpu::at(0);
  alignas(256) float here[64] = {};
  const auto plan = planned(row());
  const std::string said = refusal([&] {
    const Current current(gpu);
    plan->run(gpu, gpu.stream(0), {here, here, here}, here, "Convolution] [gpu(0)");
  });
  CHECK(has(said, "[Convolution] [gpu(0)] cudnnBackendExecute: CUDNN_STATUS_BAD_PARAM (2000): memory of a tensor"));
}

}  // namespace
}  // namespace test

int main() {
  using namespace test;
  return run_healing({{"a library that is none", a_library_that_is_none},
                      {"engines are chosen", engines_are_chosen},
                      {"what is malformed is refused", what_is_malformed_is_refused},
                      {"steps in its place", steps_in_its_place},
                      {"threads convolve", threads_convolve},
                      {"a refused run is told", a_refused_run_is_told}});
}
