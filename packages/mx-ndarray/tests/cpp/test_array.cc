// SPDX-License-Identifier: Apache-2.0
#include "kernels.hpp"

using kernels::Array;
using kernels::array;
using kernels::Ref;
using kernels::Shape;

namespace {

void memory_is_lazy_and_goes_back(fakes::Loader& loader) {
  const int64_t dim = 4;
  {
    Ref<Array> a = Array::create({MX_CPU, 0}, MX_FLOAT32, Shape(1, &dim));
    CHECK(a->address() == nullptr && loader.storage_.alive == 0);
    CHECK(a->allocate(true) != nullptr && loader.storage_.alive == 1);
    CHECK(kernels::values(*a) == std::vector<float>(4, 0.0f));
  }
  loader.engine_.drain();
  CHECK(loader.storage_.alive == 0);
}

void readers_allocate_together(fakes::Loader& loader) {
  const int64_t dim = 1024;
  for (int round = 0; round < 20; ++round) {
    Ref<Array> a = Array::create({MX_CPU, 0}, MX_FLOAT32, Shape(1, &dim));
    std::vector<void*> seen(4);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < seen.size(); ++i) {
      threads.emplace_back([&, i] { seen[i] = a->allocate(true); });
    }
    for (std::thread& thread : threads) thread.join();
    for (void* address : seen) CHECK(address == seen[0]);
  }
  loader.engine_.drain();
  CHECK(loader.storage_.alive == 0);
}

void foreign_memory_is_released_last(fakes::Loader& loader) {
  float memory[2] = {1, 2};
  static int released = 0;
  const int64_t two = 2;
  Ref<mx::nd::Call> call = kernels::call(kernels::add, 2, two);
  Ref<Array> sum = kernels::array({0, 0});
  {
    auto chunk = mx::nd::Chunk::foreign({MX_CPU, 0}, memory, sizeof memory, memory,
                                        [](void*) { ++released; });
    Ref<Array> a = Array::wrap(std::move(chunk), 0, MX_FLOAT32, Shape(1, &two));
    CHECK(a->allocate() == memory);
    loader.engine_.hold(true);
    Array* both[] = {a.get(), a.get()};
    Array* out = sum.get();
    mx::nd::push(*call, both, 2, &out, nullptr, 1, nullptr, 0, false, 0, nullptr);
  }
  CHECK(released == 0);
  loader.engine_.hold(false);
  loader.engine_.drain();
  CHECK(released == 1);
  CHECK(kernels::values(*sum) == (std::vector<float>{2, 4}));
}

}  // namespace

int main() {
  fakes::Loader loader;
  memory_is_lazy_and_goes_back(loader);
  readers_allocate_together(loader);
  foreign_memory_is_released_last(loader);
  loader.engine_.drain();
  CHECK(loader.storage_.alive == 0);
}
