// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "launch_plan.hpp"
#include "support.hpp"

namespace test {
namespace {

using mx::cuda::Kernel;
using mx::cuda::Launch;
using mx::cuda::LaunchPlan;
using mx::cuda::Parameter;
using mx::cuda::LaunchSpec;

float* marked(void* argument) {
  const auto address = *static_cast<uint64_t*>(argument);
  CHECK((address & kFakeDeviceBit) != 0);
  return reinterpret_cast<float*>(address & ~kFakeDeviceBit);
}

// y = x * scalar, or y += it; parameters x, y, request, scalar, n.
void scale(unsigned, unsigned, void** arguments) {
  const float* x = marked(arguments[0]);
  float* y = marked(arguments[1]);
  const auto request = *static_cast<int32_t*>(arguments[2]);
  const auto factor = static_cast<float>(*static_cast<double*>(arguments[3]));
  const auto n = *static_cast<uint32_t*>(arguments[4]);
  for (uint32_t i = 0; i < n; ++i) y[i] = x[i] * factor + (request == MX_REQ_ADD ? y[i] : 0);
}

const mx::Spec kFour({4}, MX_FLOAT32);
const mx::Signature kSignature{{kFour}, {kFour}, 1};

LaunchSpec launch_spec(int32_t gpu = 0) {
  static const size_t sizes[] = {8, 8, 4, 8, 4};
  fake_register("scale", scale, sizes, 5);
  static const auto kernel = std::make_shared<Kernel>("scale", "FAKE:registered");
  return {"scale", gpu, {}, 0, true, {},
          {Launch{kernel, 1, 32, 0,
                  {{Parameter::kInput, 0}, {Parameter::kOutput, 0}, {Parameter::kRequest, 0},
                   {Parameter::kScalar, 0}, {Parameter::kUint32, 4}}}}};
}

// A plan with an input and an output on its device.
class Bench {
 public:
  explicit Bench(int32_t gpu = 0) : context{MX_GPU, gpu}, plan(new LaunchPlan(kSignature, launch_spec(gpu))) {}
  ~Bench() {
    memory.free(x);
    memory.free(y);
    plan->release(plan);
  }
  std::string run(uint8_t request = MX_REQ_WRITE, void* stream_or_null = nullptr) {
    mx_kernel_context given{};
    given.size = sizeof given;
    given.context = context;
    given.stream = stream_or_null != nullptr ? stream_or_null : device.stream(context.id);
    given.scalars = &factor;
    given.n_scalars = 1;
    const mx_tensor in{x.data, &n, 16, context, MX_FLOAT32, 1, 0};
    const mx_tensor out{y.data, &n, 16, context, MX_FLOAT32, 1, 0};
    return Device::refusal(
        [&](mx_error* e) { return plan->run(plan, &given, &in, 1, &out, &request, 1, e); });
  }
  std::vector<float> read() {
    std::vector<float> got(4);
    void* stream = device.stream(context.id);
    device.copy(stream, got.data(), kCpu, y.data, context, 16);
    device.drain(stream);
    return got;
  }
  void write(const std::vector<float>& values) {
    void* stream = device.stream(context.id);
    device.copy(stream, x.data, context, values.data(), kCpu, 16);
    device.drain(stream);
  }
  const Device device;
  const Memory memory;
  const mx_context context;
  mx_plan* plan;
  double factor = 2;
  int64_t n = 4;
  mx_block x = memory.alloc(16, context), y = memory.alloc(16, context);
};

void a_plan_computes() {
  for (const int32_t gpu : {0, 1}) {
    Bench bench(gpu);
    bench.write({1, 2, 3, 4});
    fake_delay(500);
    CHECK(bench.run().empty());
    CHECK((bench.read() == std::vector<float>{2, 4, 6, 8}));
    bench.factor = 10;
    CHECK(bench.run(MX_REQ_ADD).empty());
    bench.factor = 0;  // the scalar was taken when the kernel was launched
    CHECK((bench.read() == std::vector<float>{12, 24, 36, 48}));
    const long launched = fake_calls("cuLaunchKernel");
    CHECK(bench.run(MX_REQ_NULL).empty() && fake_calls("cuLaunchKernel") == launched);
  }
}

void wrong_calls_are_refused() {
  Bench bench;
  CHECK(has(bench.run(9), "[scale] [gpu(0)] request: expected 0 to 3, got 9"));
  bench.n = 5;
  CHECK(has(bench.run(), "input 0: the plan was made for shape (4), got (5)"));
  bench.n = 4;
  LaunchSpec wrong = launch_spec();
  std::get<Launch>(wrong.steps[0]).parameters[0].number = 3;
  try {
    LaunchPlan plan(kSignature, wrong);
    CHECK(false);
  } catch (const mx::Error& error) {
    CHECK(has(error.what(), "[scale] [gpu(0)] scale has a parameter out of range"));
  }
  try {
    LaunchSpec missing = launch_spec();
    std::get<Launch>(missing.steps[0]).kernel = std::make_shared<Kernel>("absent", "FAKE:registered");
    LaunchPlan plan(kSignature, missing);
    CHECK(false);
  } catch (const mx::Error& error) {
    CHECK(has(error.what(), "[absent] [gpu(0)] cuModuleGetFunction: CUDA_ERROR_NOT_FOUND (500)"));
  }
}

void failures_name_the_operator() {
  Bench bench;
  fake_fail("cuLaunchKernel", 701, 0);
  CHECK(has(bench.run(), "[scale] [gpu(0)] cuLaunchKernel: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)"));
  bench.write({1, 2, 3, 4});
  fake_delay(5000);  // so that the kernel fails after the event was recorded after it
  fake_fail("kernel", 700, 0);
  CHECK(bench.run().empty());
  mx_token* token = bench.device.record(bench.device.stream());
  const std::string said = Device::refusal(
      [&](mx_error* e) { return bench.device->wait(bench.device->self, token, e); });
  CHECK(has(said, "[gpu(0)] cuEventSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
  fake_heal();
  bench.device.release(token);
}

void threads_share_a_plan() {
  Bench bench;
  bench.write({1, 1, 1, 1});
  bench.factor = 1;
  CHECK(bench.run().empty());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      bench.plan->retain(bench.plan);
      for (int i = 0; i < 100; ++i) CHECK(bench.run(MX_REQ_ADD).empty());
      bench.plan->release(bench.plan);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK((bench.read() == std::vector<float>{401, 401, 401, 401}));
}

// How many numbers are positive; parameters x, where the count goes.
void tally(unsigned, unsigned, void** arguments) {
  const float* x = marked(arguments[0]);
  auto* count = reinterpret_cast<int64_t*>(marked(arguments[1]));
  *count = 0;
  for (int i = 0; i < 4; ++i) *count += x[i] > 0;
}
// The first numbers; parameters x, y, how many.
void first(unsigned, unsigned, void** arguments) {
  const float* x = marked(arguments[0]);
  float* y = marked(arguments[1]);
  const auto* count = reinterpret_cast<const int64_t*>(marked(arguments[2]));
  for (int64_t i = 0; i < *count; ++i) y[i] = x[i];
}

LaunchSpec counting_spec() {
  static const size_t sizes[] = {8, 8, 8};
  fake_register("tally", tally, sizes, 2);
  fake_register("first", first, sizes, 3);
  static const auto counts = std::make_shared<Kernel>("tally", "FAKE:registered");
  static const auto takes = std::make_shared<Kernel>("first", "FAKE:registered");
  const Parameter x{Parameter::kInput, 0}, y{Parameter::kOutput, 0}, count{Parameter::kScratch, 0, 8};
  LaunchSpec made{"mask", 0, {16}, 0, true, {},
                  {Launch{counts, 1, 32, 0, {x, count}}, Launch{takes, 1, 32, 0, {x, y, count}}}};
  made.counted = mx::cuda::Counted{1, 0, 8, {1}};
  return made;
}

// An output of so many rows as a run counts, late as the stream is.
void rows_are_counted_before_there_is_memory_for_them() {
  struct Host {
    Bench bench;
    std::vector<int64_t> shape;
  } host;
  const mx::Signature signature{{kFour}, {mx::Spec({0}, MX_FLOAT32)}};
  mx_plan* plan = new LaunchPlan(signature, counting_spec());
  CHECK((plan->flags & MX_PLAN_HEAVY) != 0 && plan->n_scratch == 1);
  const mx_block scratch = host.bench.memory.alloc(plan->scratch_bytes[0], host.bench.context);
  void* pieces[] = {scratch.data};
  mx_kernel_context given{};
  given.size = sizeof given;
  given.context = host.bench.context;
  given.stream = host.bench.device.stream();
  given.scratch = pieces;
  given.host = &host;
  const mx_tensor in{host.bench.x.data, &host.bench.n, 16, given.context, MX_FLOAT32, 1, 0};
  const mx_tensor pending{nullptr, nullptr, 0, given.context, MX_FLOAT32, 0, 0};
  const uint8_t request = MX_REQ_WRITE;
  const auto run = [&] {
    return Device::refusal([&](mx_error* e) { return plan->run(plan, &given, &in, 1, &pending, &request, 1, e); });
  };
  CHECK(has(run(), "gives it no output"));
  given.alloc_output = [](const mx_kernel_context* self, uint32_t, int32_t ndim, const int64_t* shape, mx_tensor* made,
                          mx_error*) -> int32_t {
    auto& to = *static_cast<Host*>(self->host);
    to.shape.assign(shape, shape + ndim);
    *made = {to.bench.y.data, to.shape.data(), static_cast<size_t>(4 * shape[0]), self->context, MX_FLOAT32, ndim, 0};
    return MX_OK;
  };
  host.bench.write({1, 2, 3, -4});
  fake_delay(500);
  CHECK(run().empty() && (host.shape == std::vector<int64_t>{3, 1}));
  const std::vector<float> found = host.bench.read();
  CHECK(found[0] == 1 && found[1] == 2 && found[2] == 3);
  host.bench.write({0, 0, 0, 0});
  const long launched = fake_calls("cuLaunchKernel");
  CHECK(run().empty() && host.shape[0] == 0 && fake_calls("cuLaunchKernel") == launched + 1);
  fake_fail("cuMemcpyDtoHAsync_v2", 700, 0);
  CHECK(has(run(), "[mask] [gpu(0)] cuMemcpyDtoHAsync: CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
  fake_heal();
  host.bench.read();  // after the kernels of the run that failed
  host.bench.memory.free(scratch);
  plan->release(plan);
  LaunchSpec wrong = counting_spec();
  wrong.counted->offset = 9;
  try {
    LaunchPlan refused(signature, wrong);
    CHECK(false);
  } catch (const mx::Error& error) {
    CHECK(has(error.what(), "rows of an output that nothing counts"));
  }
}

}  // namespace
}  // namespace test

int main() {
  using namespace test;
  return run_healing({{"a plan computes", a_plan_computes},
              {"wrong calls are refused", wrong_calls_are_refused},
              {"failures name the operator", failures_name_the_operator},
              {"threads share a plan", threads_share_a_plan},
              {"rows are counted before there is memory for them", rows_are_counted_before_there_is_memory_for_them}});
}
