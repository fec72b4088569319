// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdlib>
#include <thread>

#include "blas.hpp"
#include "gpu.hpp"
#include "support.hpp"

// Workspaces stay as long as the process, and the leak sanitizer cannot see addresses of the fake GPU.
extern "C" const char* __lsan_default_suppressions() { return "leak:mx::cuda::multiply\n"; }

namespace test {
namespace {

using mx::cuda::Current;
using mx::cuda::Gpu;
using mx::cuda::Parameter;
using mx::cuda::Product;
using mx::cuda::Stream;

Product product(int64_t m, int64_t n, int64_t k) {
  const Parameter any{Parameter::kInput, 0};
  return {any, any, any, MX_FLOAT32, false, false, m, n, k, k, n, n, 0, 0, 0, 1, false};
}

// As long as the process, like workspaces.
const Memory& memory() {
  static const auto* kept = new Memory;
  return *kept;
}
mx::cuda::Workspaces workspaces(bool captured = false) { return {memory().operator->(), captured}; }

std::string refusal(const std::function<void()>& body) {
  return Device::refusal([&](mx_error* error) { return mx::guarded(error, body); });
}

void a_library_that_is_none() {
  CHECK(has(refusal([] { mx::cuda::check_product(product(1, 1, 1)); }), "cuBLAS is not loaded"));
  CHECK(has(refusal([] { mx::cuda::load_blas("/nowhere/libcublas.so"); }), "cuBLAS: /nowhere"));
  CHECK(has(refusal([] { mx::cuda::load_blas(std::getenv("MX_CUDA_DRIVER")); }),
            "has no cublasCreate_v2"));
  mx::cuda::load_blas(std::getenv("MX_CUBLAS"));
}

void sizes_are_checked() {
  mx::cuda::check_product(product(2, 3, 4));
  CHECK(has(refusal([] { mx::cuda::check_product(product(2, 0, 4)); }), "size 0"));
  CHECK(has(refusal([] { mx::cuda::check_product(product(2, int64_t{1} << 31, 4)); }), "2147483648"));
  Product whole = product(2, 3, 4);
  whole.dtype = MX_INT32;
  CHECK(has(refusal([&] { mx::cuda::check_product(whole); }), "type code 4"));
}

// Threads share a handle: each product is whole.
void threads_multiply() {
  const Device device;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const mx_context context{MX_GPU, t % 2};
      const Gpu& gpu = Gpu::at(context.id);
      void* stream = device.stream(context.id, 0);
      const std::vector<float> a{1, 2, 3, 4, 5, 6}, b{1, 0, 0, 1, 1, 1};  // 2 by 3, 3 by 2
      std::vector<float> c(4);
      const mx_block on_a = memory().alloc(24, context), on_b = memory().alloc(24, context);
      const mx_block on_c = memory().alloc(16, context);
      device.copy(stream, on_a.data, context, a.data(), kCpu, 24);
      device.copy(stream, on_b.data, context, b.data(), kCpu, 24);
      for (int i = 0; i < 50; ++i) {
        {
          const Current current(gpu);
          for (const bool add : {false, true})
            mx::cuda::multiply(gpu, static_cast<Stream>(stream), product(2, 2, 3), on_a.data,
                               on_b.data, on_c.data, add, workspaces(), "test");
        }
        device.copy(stream, c.data(), kCpu, on_c.data, context, 16);
        device.drain(stream);
        CHECK((c == std::vector<float>{8, 10, 20, 22}));
      }
      for (const mx_block& block : {on_a, on_b, on_c}) memory().free(block);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void a_refused_product_is_told() {
  const Gpu& gpu = Gpu::at(0);
  float here[4] = {};
  const std::string said = refusal([&] {
    mx::cuda::multiply(gpu, gpu.stream(0), product(2, 2, 2), here, here, here, false, workspaces(),
                       "dot] [gpu(0)");
  });
  CHECK(said == "[dot] [gpu(0)] cublasGemmStridedBatchedEx: the function got an invalid value (7)");
}

// The workspace of a stream is the pool's, taken once; without memory the product says so.
void workspaces_are_memory_of_the_pool() {
  const Device device;
  const Gpu& gpu = Gpu::at(0);
  auto* const other = static_cast<Stream>(device.stream(0, 1));
  const Current current(gpu);
  const mx_block block = memory().alloc(64, kGpu);
  const auto multiply = [&](bool captured) {
    return refusal([&] {
      void* const c = static_cast<char*>(block.data) + 32;
      mx::cuda::multiply(gpu, other, product(2, 2, 2), block.data, block.data, c, false, workspaces(captured),
                         "dot] [gpu(0)");
    });
  };
  const uint64_t before = memory().stats().bytes_in_use;
  memory()->set_limit(memory().self(), kGpu, before + 1);
  CHECK(has(multiply(false), "[storage] gpu(0): cannot allocate 4194304 bytes for cuBLAS, the limit is reached"));
  CHECK(has(multiply(true), "for cuBLAS, the limit is reached"));
  memory()->set_limit(memory().self(), kGpu, 0);
  CHECK(multiply(true).empty() && memory().stats().bytes_in_use == before);
  for (int i = 0; i < 2; ++i) {
    CHECK(multiply(false).empty() && memory().stats().bytes_in_use == before + (size_t{4} << 20));
  }
  CHECK(multiply(true).empty() && multiply(false).empty());
  CHECK(memory().stats().bytes_in_use == before + (size_t{4} << 20));
  device.drain(other);
  memory().free(block);
}

}  // namespace
}  // namespace test

int main() {
  using namespace test;
  const int failed = run_healing({{"a library that is none", a_library_that_is_none},
              {"sizes are checked", sizes_are_checked},
              {"threads multiply", threads_multiply},
              {"workspaces are memory of the pool", workspaces_are_memory_of_the_pool},
              {"a refused product is told", a_refused_product_is_told}});
  for (const mx_context context : {kGpu, kOther}) memory()->release_all(memory().self(), context);
  return failed;
}
