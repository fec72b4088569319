// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdlib>
#include <set>
#include <thread>

#include "attention_graph.hpp"
#include "convolution_graph.hpp"
#include "launch_plan.hpp"
#include "norm_graph.hpp"
#include "rnn_plan.hpp"
#include "support.hpp"

namespace test {
namespace {

using mx::cuda::Current;
using mx::cuda::Gpu;
using mx::cuda::Kernel;
using mx::cuda::Launch;
using mx::cuda::LaunchPlan;
using mx::cuda::Library;
using mx::cuda::Parameter;
using mx::cuda::dnn::Attention;
using mx::cuda::dnn::AttentionPlan;
using mx::cuda::dnn::Choice;
using mx::cuda::dnn::Convolution;
using mx::cuda::dnn::ConvolutionPlan;
using mx::cuda::dnn::Norm;
using mx::cuda::dnn::NormPlan;
using mx::cuda::dnn::Rnn;
using mx::cuda::dnn::RnnPlan;

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

// It is no engine's refusal: with more memory there may be a plan.
void memory_that_is_missing_is_told() {
  ::setenv("FAKE_CUDNN_REFUSES", "memory", 1);
  mx_error error{};
  CHECK(mx::guarded(&error, [] { planned(row(), {1 << 20, true}); }) == MX_ERROR_MEMORY);
  CHECK(has(error.message, "cudnnBackendFinalize: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED (4004)"));
  ::unsetenv("FAKE_CUDNN_REFUSES");
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
  what.bias = false;
  what.relu = true;
  CHECK(has(refusal([&] { planned(what); }), "with a bias is not added"));
  what.add = false;
  what.residual = what.bias = true;
  CHECK((planned(what)->ids() == std::vector<int64_t>{1, 2, 4, 5, 3}));  // the result is that of the last operation
  ::setenv("FAKE_CUDNN_REFUSES", "x", 1);
  CHECK(has(refusal([] { planned(row(Convolution::kX)); }), "[cuDNN gradient of data] no engine serves (of 0)"));
  ::unsetenv("FAKE_CUDNN_REFUSES");
}

Norm examples() { return {Norm::kLayer, false, MX_FLOAT32, MX_FLOAT32, true, {2, 4, 1, 1}, 0.5f}; }

std::shared_ptr<NormPlan> planned(const Norm& what) {
  const Gpu& gpu = Gpu::at(0);
  const Current current(gpu);
  return std::make_shared<NormPlan>(what, kAny, &gpu, "");
}

// x, y, scale, bias, mean and inverse have addresses; epsilon is a number of the host.
void normalizations_are_planned() {
  CHECK((planned(examples())->ids() == std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
  Norm what = examples();
  what.gradient = true;
  CHECK((planned(what)->ids() == std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8}));
  CHECK(NormPlan(what, kAny, nullptr, "{}").workspace() == 1000);  // of a described GPU
  what.x[0] = 0;
  CHECK(has(refusal([&] { planned(what); }), "[cuDNN gradient of a normalization] expected four extents above 0"));
  what = examples();
  what.vectors = MX_FLOAT64;
  CHECK(has(refusal([&] { planned(what); }), "type code"));
  ::setenv("FAKE_CUDNN_REFUSES", "norm", 1);
  CHECK(has(refusal([] { planned(examples()); }), "[cuDNN normalization] no engine serves (of 0)"));
  ::unsetenv("FAKE_CUDNN_REFUSES");
}

// Query, key, value and output have addresses; the scale is a number of the host.
void attention_is_planned() {
  const Gpu& gpu = Gpu::at(0);
  const Current current(gpu);
  Attention what{Attention::kInference, MX_FLOAT16, 2, 3, 4, 5, 8, 16, 0.5f};
  const auto ids = [&] {
    const AttentionPlan made(what, kAny, &gpu, "");
    return std::set<int64_t>(made.ids().begin(), made.ids().end());
  };
  CHECK((ids() == std::set<int64_t>{1, 2, 3, 4}));
  CHECK(AttentionPlan(what, kAny, nullptr, "{}").workspace() == 1000);
  what.stage = Attention::kTraining;
  CHECK((ids() == std::set<int64_t>{1, 2, 3, 4, 5}));
  what.stage = Attention::kGradient;
  CHECK((ids() == std::set<int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  ::setenv("FAKE_CUDNN_REFUSES", "graph", 1);
  CHECK(has(refusal(ids), "[cuDNN gradient of an attention] no engine serves (of 0)"));
  ::unsetenv("FAKE_CUDNN_REFUSES");
  what.heads = 0;
  CHECK(has(refusal(ids), "[cuDNN gradient of an attention] extents: expected above 0"));
  what = {Attention::kInference, MX_FLOAT32, 2, 3, 4, 5, 8, 16, 0.5f};  // the stand-in has 16 bits alone
  CHECK(has(refusal(ids), "[cuDNN attention]"));
}

// As cuDNN 9.19 does: an attribute of another kind, of another type, or of several values is refused when it is set.
void attributes_are_checked() {
  using namespace mx::cuda::dnn;
  Descriptor tensor(kTensor, "test"), product(kMatmulOperation, "test");
  const float number = 1;
  CHECK(has(refusal([&] { tensor.set_number(kEngineIndex, 1); }), "no such attribute of this kind"));
  CHECK(has(refusal([&] { tensor.set(kTensorId, kFloat, 1, &number); }), "ATTRIBUTE_TYPE (2010): type of an attribute"));
  CHECK(has(refusal([&] { tensor.set(kTensorId, {1, 2}); }), "(2000): number of values"));
  CHECK(has(refusal([&] { product.set(kMatmulA, tensor); }), "NOT_FINALIZED (2004): a descriptor as a value"));
  Descriptor how(kMatmul, "test");
  how.set_choice(kMatmulPrecision, kDataTypeType, kFloat32).finalize();
  CHECK(has(refusal([&] { product.set(kMatmulA, how); }), "(2000): kind of a descriptor as a value"));
  CHECK(has(refusal([&] { how.set_choice(kMatmulPrecision, kDataTypeType, kFloat32); }), "after it was finalized"));
}

Rnn layers() { return {Rnn::kTanh, false, MX_FLOAT32, false, true, 1, 1, 1, 1, 1}; }

// Tensors by their ids, the workspace, and what is refused.
void recurrent_layers_are_planned() {
  const Gpu& gpu = Gpu::at(0);
  const Current current(gpu);
  const auto count = [&](const Rnn& what) { return RnnPlan(what, false, gpu).ids().size(); };
  Rnn what = layers();
  CHECK(count(what) == 5);  // data, parameters, state; output, last state
  CHECK(RnnPlan(what, false, gpu).workspace() == 1024 + 256 && RnnPlan(what, false, gpu).omits());
  what.shows = false;
  CHECK(count(what) == 4);
  what.gradient = true;
  CHECK(count(what) == 7);  // data, parameters, state, gradient of the output; those of the first three
  what.shows = true;
  what.cell = Rnn::kLstm;
  CHECK(count(what) == 4 + 3 + 4);
  what.layers = 0;
  CHECK(has(refusal([&] { count(what); }), "[cuDNN recurrent layers] extents: expected above 0, got 0"));
  what = layers();
  what.dtype = MX_FLOAT64;
  CHECK(has(refusal([&] { count(what); }), "type code"));
  ::setenv("FAKE_CUDNN_REFUSES", "rnn", 1);
  CHECK(has(refusal([&] { count(layers()); }), "[cuDNN recurrent layers] its parameters lie in another order"));
  ::unsetenv("FAKE_CUDNN_REFUSES");
}

// One step of one unit: h' = tanh(w x + r h + b + c), and its gradient, whose parameters are added.  Results that are
// not wanted are left out.
void recurrent_layers_run() {
  const Gpu& gpu = Gpu::at(0);
  const Device device;
  const Memory memory;
  void* stream = device.stream(0);
  const auto on = [&](std::vector<float> values) {
    const mx_block made = memory.alloc(16);
    device.copy(stream, made.data, kGpu, values.data(), kCpu, 4 * values.size());
    device.drain(stream);
    return made;
  };
  const auto value = [&](const mx_block& block, size_t i = 0) {
    float made[4];
    device.copy(stream, made, kCpu, block.data, kGpu, 16);
    device.drain(stream);
    return made[i];
  };
  const mx_block x = on({2}), parameters = on({0.5f, 0.25f, 0.1f, 0.2f}), h = on({4}), y = on({0}), last = on({0});
  const mx_block dy = on({1}), dlast = on({2}), dx = on({0}), dp = on({1, 1, 1, 1}), dh = on({0});
  const mx_block space = memory.alloc(8192);
  const auto run = [&](const RnnPlan& plan, const std::vector<void*>& pointers) {
    const Current current(gpu);
    plan.run(gpu, static_cast<mx::cuda::Stream>(stream), pointers, space.data, "test");
  };
  const auto make = [&](bool gradient) {
    const Current current(gpu);
    Rnn what = layers();
    what.gradient = gradient;
    return std::make_unique<RnnPlan>(what, false, gpu);
  };
  const auto near = [](float a, double b) { return std::abs(a - b) < 1e-6; };
  const double made = std::tanh(0.5 * 2 + 0.25 * 4 + 0.1 + 0.2), d = 3 * (1 - made * made);
  const auto forward = make(false), backward = make(true);
  run(*forward, {x.data, parameters.data, h.data, y.data, last.data});
  CHECK(near(value(y), made) && near(value(last), made));
  run(*forward, {x.data, parameters.data, h.data, nullptr, dh.data});
  CHECK(near(value(dh), made));
  run(*backward, {x.data, parameters.data, h.data, dy.data, dlast.data, dx.data, dp.data, dh.data});
  CHECK(near(value(dx), d * 0.5) && near(value(dh), d * 0.25));
  CHECK(near(value(dp, 0), 1 + d * 2) && near(value(dp, 1), 1 + d * 4) && near(value(dp, 3), 1 + d));
  run(*backward, {x.data, parameters.data, h.data, dy.data, dlast.data, nullptr, dp.data, nullptr});
  CHECK(near(value(dp, 0), 1 + 2 * d * 2));
  for (const mx_block& block : {x, parameters, h, y, last, dy, dlast, dx, dp, dh, space}) memory.free(block);
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
          {Library{planned(row()), std::move(added), {x, w, y}, {y}, {Parameter::kScratch, 0}, 0, instead},
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
  CHECK(has(refusal([] { LaunchPlan(kSignature, spec(nullptr, 2)); }), "malformed graph of cuDNN"));
  for (const mx_block& block : {x, w, y, scratch}) memory.free(block);
}

void double_all(unsigned, unsigned, void** arguments) {
  const auto address = *static_cast<uint64_t*>(arguments[0]);
  auto* y = reinterpret_cast<float*>(address & ~kFakeDeviceBit);
  for (int i = 0; i < 8; ++i) y[i] *= 2;
}

// Steps that follow a graph run where it serves; those after them where it does not: two results are requested in
// different ways.
void steps_after_it() {
  static const size_t sizes[] = {8};
  fake_register("double_all", double_all, sizes, 1);
  fake_register("mark", mark, sizes, 1);
  const auto doubles = std::make_shared<Kernel>("double_all", "FAKE:registered");
  const auto marks = std::make_shared<Kernel>("mark", "FAKE:registered");
  const Parameter x{Parameter::kInput, 0}, scale{Parameter::kInput, 1}, bias{Parameter::kInput, 2};
  const Parameter y{Parameter::kOutput, 0}, mean{Parameter::kOutput, 1}, space{Parameter::kScratch, 0};
  const Parameter inverse{Parameter::kScratch, 1};
  const auto spec = [&](size_t then, size_t instead, std::vector<Parameter> results) -> mx::cuda::LaunchSpec {
    return {"norm", 0, {1256, 8}, 0, true, {},
            {Library{planned(examples()), nullptr, {x, y, scale, bias, mean, inverse}, std::move(results), space, then,
                     instead},
             Launch{doubles, 1, 32, 0, {y}}, Launch{marks, 1, 32, 0, {y}}}};
  };
  const mx::Spec vector({4}, MX_FLOAT32), data({2, 4}, MX_FLOAT32);
  const mx::Signature signature{{data, vector, vector}, {data, mx::Spec({2}, MX_FLOAT32)}, 0};
  CHECK(has(refusal([&] { LaunchPlan(signature, spec(1, 2, {y, mean})); }), "malformed graph of cuDNN"));
  CHECK(has(refusal([&] { LaunchPlan(signature, spec(3, 0, {y, mean})); }), "malformed graph of cuDNN"));
  CHECK(has(refusal([&] { LaunchPlan(signature, spec(1, 1, {})); }), "malformed graph of cuDNN"));
  CHECK(has(refusal([&] { LaunchPlan(signature, spec(1, 1, {y, x})); }), "malformed graph of cuDNN"));
  const Device device;
  const Memory memory;
  void* stream = device.stream(0);
  const mx_block on_x = memory.alloc(32), on_scale = memory.alloc(16), on_bias = memory.alloc(16);
  const mx_block on_y = memory.alloc(32), on_mean = memory.alloc(8), first = memory.alloc(2048), second = memory.alloc(8);
  const std::vector<float> given{1, 1, 3, 3, 5, 5, 5, 5}, ones(4, 1), zeros(4, 0);
  device.copy(stream, on_x.data, kGpu, given.data(), kCpu, 32);
  device.copy(stream, on_scale.data, kGpu, ones.data(), kCpu, 16);
  device.copy(stream, on_bias.data, kGpu, zeros.data(), kCpu, 16);
  auto* plan = new LaunchPlan(signature, spec(1, 1, {y, mean}));
  const auto run = [&](uint8_t of_y, uint8_t of_mean) {
    const std::vector<float> before(8, 100);
    device.copy(stream, on_y.data, kGpu, before.data(), kCpu, 32);
    mx_kernel_context context{};
    context.size = sizeof context;
    context.context = kGpu;
    context.stream = stream;
    void* pieces[] = {first.data, second.data};
    context.scratch = pieces;
    const int64_t wide[] = {2, 4}, four = 4, two = 2;
    const mx_tensor in[] = {{on_x.data, wide, 32, kGpu, MX_FLOAT32, 2, 0},
                            {on_scale.data, &four, 16, kGpu, MX_FLOAT32, 1, 0},
                            {on_bias.data, &four, 16, kGpu, MX_FLOAT32, 1, 0}};
    const mx_tensor out[] = {{on_y.data, wide, 32, kGpu, MX_FLOAT32, 2, 0}, {on_mean.data, &two, 8, kGpu, MX_FLOAT32, 1, 0}};
    const uint8_t requests[] = {of_y, of_mean};
    Device::passes([&](mx_error* e) { return plan->run(plan, &context, in, 3, out, requests, 2, e); });
    std::vector<float> got(8), means(2);
    device.copy(stream, got.data(), kCpu, on_y.data, kGpu, 32);
    device.copy(stream, means.data(), kCpu, on_mean.data, kGpu, 8);
    device.drain(stream);
    got.insert(got.end(), means.begin(), means.end());
    return got;
  };
  const std::vector<float> served = run(MX_REQ_WRITE, MX_REQ_WRITE);
  const float far = 2 / std::sqrt(1.5f);  // variance 1, doubled
  for (int i = 0; i < 8; ++i) CHECK(std::abs(served[i] - (i < 2 ? -far : i < 4 ? far : 0)) < 1e-6f);
  CHECK(served[8] == 2 && served[9] == 5);
  for (const auto& [of_y, of_mean] : {std::pair{MX_REQ_WRITE, MX_REQ_NULL}, std::pair{MX_REQ_ADD, MX_REQ_ADD}}) {
    const std::vector<float> own = run(static_cast<uint8_t>(of_y), static_cast<uint8_t>(of_mean));
    CHECK(own[0] == -1 && own[1] == 100 && own[7] == 100);
  }
  plan->release(plan);
  for (const mx_block& block : {on_x, on_scale, on_bias, on_y, on_mean, first, second}) memory.free(block);
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
                      {"memory that is missing is told", memory_that_is_missing_is_told},
                      {"what is malformed is refused", what_is_malformed_is_refused},
                      {"normalizations are planned", normalizations_are_planned},
                      {"attention is planned", attention_is_planned},
                      {"attributes are checked", attributes_are_checked},
                      {"recurrent layers are planned", recurrent_layers_are_planned},
                      {"recurrent layers run", recurrent_layers_run},
                      {"steps in its place", steps_in_its_place},
                      {"steps after it", steps_after_it},
                      {"threads convolve", threads_convolve},
                      {"a refused run is told", a_refused_run_is_told}});
}
