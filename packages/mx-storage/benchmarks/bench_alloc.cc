// SPDX-License-Identifier: Apache-2.0
//
// What an allocation and its release cost in a steady state, the same sizes again and again, beside malloc
// and, where its library is given, PyTorch's allocator for the CPU: threads that allocate for themselves,
// and pairs of threads of which one allocates what the other frees.  Ratios are of speeds.
//
//   bench_alloc [libc10.so]
#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "manager.hpp"
#include "mx_core/benchmark.hpp"

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kLive = 16;

void touch(void* data) { *static_cast<volatile char*>(data) = 1; }

struct Pool {
  const mx_storage_api* table;
  using Held = mx_block;
  Held alloc(size_t bytes) const {
    mx_block block;
    mx_error error;
    if (table->alloc(table->self, {MX_CPU, 0}, bytes, "bench", &block, &error) != MX_OK) std::abort();
    touch(block.data);
    return block;
  }
  void free(const Held& block) const { table->free(table->self, &block); }
};

struct Malloc {
  using Held = void*;
  Held alloc(size_t bytes) const {
    void* data = nullptr;
    if (::posix_memalign(&data, 64, bytes) != 0) std::abort();
    touch(data);
    return data;
  }
  void free(Held data) const { std::free(data); }
};

// c10::alloc_cpu and c10::free_cpu.
struct Torch {
  void* (*take)(size_t) = nullptr;
  void (*give)(void*) = nullptr;
  using Held = void*;
  Held alloc(size_t bytes) const {
    void* data = take(bytes);
    touch(data);
    return data;
  }
  void free(Held data) const { give(data); }
};

Torch load(const char* path) {
  void* library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", ::dlerror());
    std::exit(1);
  }
  return {reinterpret_cast<void* (*)(size_t)>(::dlsym(library, "_ZN3c109alloc_cpuEm")),
          reinterpret_cast<void (*)(void*)>(::dlsym(library, "_ZN3c108free_cpuEPv"))};
}

template <class Heap>
void alone(const Heap& heap, size_t bytes, int pairs) {
  typename Heap::Held held[kLive];
  for (auto& block : held) block = heap.alloc(bytes);
  for (int i = 0; i < pairs; ++i) {
    heap.free(held[i % kLive]);
    held[i % kLive] = heap.alloc(bytes);
  }
  for (auto& block : held) heap.free(block);
}

// A ring between a thread that allocates and one that frees.
template <class Heap>
class Relay {
 public:
  void produce(const Heap& heap, size_t bytes, int pairs) {
    for (int i = 0; i < pairs; ++i) {
      while (i - freed_.load(std::memory_order_acquire) >= kRing) std::this_thread::yield();
      ring_[i % kRing] = heap.alloc(bytes);
      made_.store(i + 1, std::memory_order_release);
    }
  }
  void consume(const Heap& heap, int pairs) {
    for (int i = 0; i < pairs; ++i) {
      while (made_.load(std::memory_order_acquire) <= i) std::this_thread::yield();
      heap.free(ring_[i % kRing]);
      freed_.store(i + 1, std::memory_order_release);
    }
  }

 private:
  static constexpr int kRing = 32;
  typename Heap::Held ring_[kRing];
  std::atomic<int> made_{0}, freed_{0};
};

enum class Shape { kOne, kTwo, kFour, kRelay };

// Nanoseconds per pair of alloc and free of a thread; the smallest of several runs.
template <class Heap>
double pair_ns(const Heap& heap, size_t bytes, Shape shape, int pairs) {
  double best = 1e30;
  for (int repeat = 0; repeat < 5; ++repeat) {
    Relay<Heap> relay;
    const auto begin = Clock::now();
    std::vector<std::thread> workers;
    if (shape == Shape::kRelay) {
      workers.emplace_back([&] { relay.produce(heap, bytes, pairs); });
      workers.emplace_back([&] { relay.consume(heap, pairs); });
    } else {
      const int n = shape == Shape::kOne ? 1 : shape == Shape::kTwo ? 2 : 4;
      for (int t = 0; t < n; ++t) workers.emplace_back([&] { alone(heap, bytes, pairs); });
    }
    for (std::thread& worker : workers) worker.join();
    const double ns = std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
    best = ns / pairs < best ? ns / pairs : best;
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const mx::storage::Manager manager(mx::storage::PoolType::kPooled);
  const Pool pool{manager.table()};
  const Torch torch = argc > 1 ? load(argv[1]) : Torch{};
  const struct { Shape shape; const char* name; } shapes[] = {
      {Shape::kOne, "1"}, {Shape::kTwo, "2"}, {Shape::kFour, "4"}, {Shape::kRelay, "one to other"}};
  for (const size_t bytes : {64UL, 1000UL, 16'000UL, 200'000UL, 1UL << 20, 4UL << 20, 64UL << 20}) {
    for (const auto& [shape, name] : shapes) {
      const int pairs = bytes <= 20'000 ? 100'000 : bytes <= (4 << 20) ? 20'000 : 1'000;
      const double ours = pair_ns(pool, bytes, shape, pairs);
      const double heap = pair_ns(Malloc{}, bytes, shape, pairs);
      const double theirs = torch.take == nullptr ? 0 : pair_ns(torch, bytes, shape, pairs);
      const std::string label = std::to_string(bytes) + " bytes, threads: " + name;
      mx::record(label, ours, "ns", "malloc", heap / ours);
      if (torch.take != nullptr) mx::record(label, ours, "ns", "PyTorch", theirs / ours);
    }
  }
}
