// SPDX-License-Identifier: Apache-2.0
//
// Stress: threads that come and go, blocks freed by others, releases, statistics and forks in
// between; every block carries a mark that only its owner writes.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "random.hpp"
#include "support.hpp"

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

// What training does again and again: a few dozen blocks of some sizes, freed in another order.
void a_steady_state_takes_no_common_lock() {
  Memory memory;
  std::vector<std::thread> threads;
  std::atomic<int> warm{0};
  std::atomic<bool> go{false};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      const auto step = [&] {
        std::vector<mx_block> held;
        for (size_t bytes : {64UL, 1000UL, 4096UL, 40'000UL}) {
          for (int i = 0; i < 4; ++i) held.push_back(memory.alloc(bytes));
        }
        for (size_t i = 0; i < held.size(); ++i) memory.free(held[i * 5 % held.size()]);
      };
      for (int i = 0; i < 10; ++i) step();
      ++warm;
      while (!go) std::this_thread::yield();
      for (int i = 0; i < 2000; ++i) step();
      --warm;
      while (warm != 0) std::this_thread::yield();  // the end of a thread gives its cache back
    });
  }
  while (warm != 4) std::this_thread::yield();
  const uint64_t before = memory.counts().shared;
  go = true;
  while (warm != 0) std::this_thread::yield();
  const uint64_t during = memory.counts().shared - before;
  for (std::thread& thread : threads) thread.join();
  CHECK(during <= 52 * 4);  // the caches going back, of threads that have ended already
  CHECK(memory.stats().bytes_in_use == 0);
  CHECK(memory.stats().pool_hits >= 4 * 2000 * 16);
}

// One thread allocates what another frees, as a pushing thread and a worker do: one visit per batch.
void pairs_of_threads_meet_once_per_batch() {
  Memory memory;
  constexpr int kBlocks = 20'000;
  Exchange exchange;
  std::thread consumer([&] {
    Marked m;
    for (int n = 0; n < kBlocks;) {
      if (!exchange.take(&m)) {
        std::this_thread::yield();
        continue;
      }
      memory.free(m.block);
      ++n;
    }
  });
  for (int n = 0; n < kBlocks; ++n) exchange.give({memory.alloc(256), 0});
  consumer.join();
  // refills that find nothing fall to the system; what moves, moves by the half cache of 32
  const mx_storage_stats stats = memory.stats();
  CHECK(memory.counts().shared <= (kBlocks - stats.pool_hits) + 2 * kBlocks / 16 + 2 * 52);
}

// Each thread holds one block of `mine` bytes, all at once and again and again.
void all_at_once(const Memory& memory, int n_threads, size_t mine, int rounds) {
  std::vector<std::thread> threads;
  std::atomic<int> held{0}, freed{0};
  for (int t = 0; t < n_threads; ++t) {
    threads.emplace_back([&] {
      for (int r = 1; r <= rounds; ++r) {
        const mx_block block = memory.alloc(mine);
        ++held;
        while (held < n_threads * r) std::this_thread::yield();
        memory.free(block);
        ++freed;
        while (freed < n_threads * r) std::this_thread::yield();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void the_peak_is_never_too_low() {
  constexpr uint64_t kCredit = uint64_t{2} << 20;
  for (const size_t bytes : {64UL, 5000UL, 700'000UL, 3UL << 20}) {
    const Memory memory;
    all_at_once(memory, 4, bytes, 30);
    const mx_storage_stats stats = memory.stats();
    CHECK(stats.bytes_in_use == 0);
    CHECK(stats.bytes_peak >= 4 * bytes && stats.bytes_peak <= 4 * bytes + 3 * kCredit);
  }
}

void the_peak_is_exact_where_threads_take_turns() {
  const Memory memory;
  uint64_t most = 0, now = 0;
  std::mt19937 random(7);
  std::vector<mx_block> held;
  for (int turn = 0; turn < 40; ++turn) {
    if (turn == 25) {
      memory->reset_peak(memory.self(), test::kCpu);
      most = now;
    }
    std::thread([&] {
      for (int i = 0; i < 50; ++i) {
        if (random() % 2 == 0 || held.empty()) {
          held.push_back(memory.alloc(1 + random() % (random() % 9 == 0 ? 3'000'000 : 90'000)));
          now += held.back().bytes;
          most = std::max(most, now);
        } else {
          std::swap(held[random() % held.size()], held.back());
          now -= held.back().bytes;
          memory.free(held.back());
          held.pop_back();
        }
      }
    }).join();
    CHECK(memory.stats().bytes_in_use == now && memory.stats().bytes_peak == most);
  }
  for (const mx_block& block : held) memory.free(block);
}

void what_a_thread_keeps_serves_the_others() {
  const Memory memory;
  constexpr size_t kBytes = size_t{8} << 20;
  std::atomic<bool> freed{false}, stop{false};
  std::thread other([&] {
    mx_block blocks[3];
    for (mx_block& block : blocks) block = memory.alloc(kBytes);
    for (const mx_block& block : blocks) memory.free(block);
    freed = true;
    while (!stop) std::this_thread::yield();
  });
  while (!freed) std::this_thread::yield();
  mx_block blocks[3];
  for (mx_block& block : blocks) block = memory.alloc(kBytes - 100'000);
  CHECK(memory.stats().pool_hits == 3 && memory.stats().bytes_pooled == 0);
  for (const mx_block& block : blocks) memory.free(block);
  CHECK(memory.stats().bytes_pooled == 3 * kBytes);
  memory.release();
  CHECK(memory.stats().bytes_pooled == 0);
  stop = true;
  other.join();
}

// What threads that wait have reserved is at the disposal of the others.
void a_limit_is_exact_across_threads() {
  const Memory memory;
  std::atomic<int> ready{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      const mx_block block = memory.alloc(1000);
      ++ready;
      while (!stop) std::this_thread::yield();
      memory.free(block);
    });
  }
  while (ready != 3) std::this_thread::yield();
  memory->set_limit(memory.self(), test::kCpu, 10'000);
  const mx_block rest = memory.alloc(7000);
  mx_block none{};
  CHECK(memory.try_alloc(1, &none, nullptr) == MX_ERROR_MEMORY);
  CHECK(memory.stats().bytes_in_use == 10'000);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  memory.free(memory.alloc(3000));
  memory.free(rest);
  memory->set_limit(memory.self(), test::kCpu, 0);
  memory.free(memory.alloc(20'000));
  CHECK(memory.stats().bytes_in_use == 0);
}

// A limit that comes and goes under threads which allocate what others free.
void no_thread_passes_a_limit() {
  const Memory memory;
  constexpr uint64_t kLimit = 200'000;
  std::atomic<uint64_t> held{0};
  std::atomic<bool> stop{false}, limited{false};
  std::vector<std::thread> threads;
  memory->set_limit(memory.self(), test::kCpu, kLimit);
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      while (!stop) {
        mx_block block{};
        if (memory.try_alloc(1 + random() % 90'000, &block, nullptr) != MX_OK) continue;
        CHECK((held += block.bytes) <= kLimit || !limited);
        held -= block.bytes;
        memory.free(block);
      }
    });
  }
  for (int i = 0; i < 30; ++i) {
    limited = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    limited = false;
    memory->set_limit(memory.self(), test::kCpu, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    memory->set_limit(memory.self(), test::kCpu, kLimit);
    while (held > kLimit) std::this_thread::yield();
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(memory.stats().bytes_in_use == 0);
  memory.free(memory.alloc(kLimit));
}

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
      {"stress, buckets, 3 threads", [] { stress(PoolType::kBuckets, 3); }},
      {"a_steady_state_takes_no_common_lock", a_steady_state_takes_no_common_lock},
      {"pairs_of_threads_meet_once_per_batch", pairs_of_threads_meet_once_per_batch},
      {"the_peak_is_never_too_low", the_peak_is_never_too_low},
      {"the_peak_is_exact_where_threads_take_turns", the_peak_is_exact_where_threads_take_turns},
      {"what_a_thread_keeps_serves_the_others", what_a_thread_keeps_serves_the_others},
      {"a_limit_is_exact_across_threads", a_limit_is_exact_across_threads},
      {"no_thread_passes_a_limit", no_thread_passes_a_limit},
      {"threads_outlive_managers", threads_outlive_managers},
      {"forks, pooled", [] { forks_in_the_middle(PoolType::kPooled); }},
      {"forks, best fit", [] { forks_in_the_middle(PoolType::kBestFit); }},
      {"forks, buckets", [] { forks_in_the_middle(PoolType::kBuckets); }},
      {"counters_are_never_shared", counters_are_never_shared},
  });
}
