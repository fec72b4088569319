// SPDX-License-Identifier: Apache-2.0
//
// Stress: threads that come and go, blocks freed by others, releases, statistics and forks in
// between; every block carries a mark that only its owner writes.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "random.h"
#include "support.h"

using mx::storage::PoolType;
using test::Memory;

namespace {

struct Marked {
  mx_block block;
  uint64_t mark;
};

void write(const Marked& m) {
  auto* words = static_cast<uint64_t*>(m.block.data);
  words[0] = m.mark;
  words[m.block.bytes / 8 - 1] = m.mark;
}

void verify(const Marked& m) {
  const auto* words = static_cast<const uint64_t*>(m.block.data);
  CHECK(words[0] == m.mark && words[m.block.bytes / 8 - 1] == m.mark);
}

// Blocks that any thread may take over.
class Exchange {
 public:
  void give(const Marked& m) {
    const std::lock_guard<std::mutex> lock(mutex_);
    items_.push_back(m);
  }
  bool take(Marked* m) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (items_.empty()) return false;
    *m = items_.back();
    items_.pop_back();
    return true;
  }

 private:
  std::mutex mutex_;
  std::vector<Marked> items_;
};

void worker(const Memory& memory, Exchange& exchange, unsigned seed, int steps) {
  std::mt19937 random(seed);
  std::vector<Marked> mine;
  for (int step = 0; step < steps; ++step) {
    const unsigned dice = random() % 100;
    if (dice < 50 || mine.empty()) {
      const size_t largest = dice == 0 ? size_t{6} << 20 : dice < 5 ? 200'000 : 4000;
      const Marked m{memory.alloc(8 + random() % largest / 8 * 8), uint64_t{seed} << 32 | random()};
      write(m);
      mine.push_back(m);
      continue;
    }
    std::swap(mine[random() % mine.size()], mine.back());
    Marked m = mine.back();
    mine.pop_back();
    verify(m);
    if (dice < 70) {
      exchange.give(m);
      if (!exchange.take(&m)) continue;
      verify(m);
    }
    if (dice < 97) {
      memory.free(m.block);
    } else {
      memory.direct_free(m.block);
    }
    if (dice == 99 && random() % 20 == 0) memory.release();
    if (dice == 98) memory.stats();
  }
  for (const Marked& m : mine) exchange.give(m);
}

void stress(PoolType type, int n_threads) {
  const Memory memory(type);
  Exchange exchange;
  unsigned seed = 1;
  for (int generation = 0; generation < 4; ++generation) {
    std::vector<std::thread> threads;
    for (int i = 0; i < n_threads; ++i) {
      threads.emplace_back(worker, std::cref(memory), std::ref(exchange), seed++, 3000);
    }
    for (std::thread& thread : threads) thread.join();
  }
  for (Marked m; exchange.take(&m);) {
    verify(m);
    memory.free(m.block);
  }
  CHECK(memory.stats().bytes_in_use == 0);
  memory.release();
  CHECK(memory.stats().bytes_pooled == 0);
}

void threads_outlive_managers() {
  std::atomic<int> round{0}, done{0};
  std::unique_ptr<Memory> memory;
  std::vector<std::thread> threads;
  constexpr int kThreads = 3, kRounds = 50;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int r = 1; r <= kRounds; ++r) {
        while (round.load() < r) std::this_thread::yield();
        memory->free(memory->alloc(500));
        ++done;
      }
    });
  }
  for (int r = 1; r <= kRounds; ++r) {
    memory = std::make_unique<Memory>();
    round = r;
    while (done.load() < kThreads * r) std::this_thread::yield();
  }
  memory.reset();
  for (std::thread& thread : threads) thread.join();
}

#if !defined(__SANITIZE_THREAD__)
void forks_in_the_middle(PoolType type) {
  const Memory memory(type);
  mx::storage::Random random;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        memory.free(memory.alloc(300));
        memory.free(memory.alloc(3 << 20));
        random.reserve(test::kCpu, 1);
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      random.reserve(test::kCpu, 1);
      memory.free(memory.alloc(300));
      memory.free(memory.alloc(3 << 20));
      memory.release();
      // blocks that the other threads held at the fork keep their arenas
      const bool emptied = memory.stats().bytes_pooled == 0 || type == PoolType::kBestFit;
      ::_exit(emptied ? 0 : 1);
    }
    int status = 1;
    CHECK(::waitpid(child, &status, 0) == child && status == 0);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}
#else
void forks_in_the_middle(PoolType) {}  // ThreadSanitizer does not support threads on both sides of a fork
#endif

void counters_are_never_shared() {
  mx::storage::Random random;
  std::vector<std::vector<uint64_t>> taken(4);
  std::vector<std::thread> threads;
  for (auto& mine : taken) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) mine.push_back(random.reserve(test::kCpu, 7).second);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<uint64_t> all;
  for (const auto& mine : taken) all.insert(all.end(), mine.begin(), mine.end());
  std::sort(all.begin(), all.end());
  for (size_t i = 0; i < all.size(); ++i) CHECK(all[i] == 7 * i);
}

}  // namespace

int main() {
  return test::run({
      {"stress, pooled, 1 thread", [] { stress(PoolType::kPooled, 1); }},
      {"stress, pooled, 3 threads", [] { stress(PoolType::kPooled, 3); }},
      {"stress, pooled, 7 threads", [] { stress(PoolType::kPooled, 7); }},
      {"stress, best fit, 3 threads", [] { stress(PoolType::kBestFit, 3); }},
      {"stress, naive, 3 threads", [] { stress(PoolType::kNaive, 3); }},
      {"threads_outlive_managers", threads_outlive_managers},
      {"forks, pooled", [] { forks_in_the_middle(PoolType::kPooled); }},
      {"forks, best fit", [] { forks_in_the_middle(PoolType::kBestFit); }},
      {"counters_are_never_shared", counters_are_never_shared},
  });
}
