// SPDX-License-Identifier: Apache-2.0
//
// Pushes from many threads over crossing sets of variables are atomic: the orders seen at the
// single variables fit one common order, which respects every thread's program order.
#include <atomic>
#include <map>
#include <random>

#include "support.hpp"

using namespace test;

namespace {

constexpr int kVariables = 6;

void crossing(int pushers, int workers, bool naive, uint32_t flags) {
  const Table table(workers, naive);
  constexpr int kPushes = 400;
  struct Shared {
    mx_variable* handle;
    std::atomic<int> writers{0};
    std::vector<int> log;  // written by one operation at a time
  };
  std::vector<Shared> shared(kVariables);
  for (auto& s : shared) s.handle = table.variable();

  std::vector<std::thread> threads;
  for (int t = 0; t < pushers; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < kPushes; ++i) {
        std::vector<int> chosen;
        for (int v = 0; v < kVariables; ++v) {
          if (random() % 2 == 0) chosen.push_back(v);
        }
        std::shuffle(chosen.begin(), chosen.end(), random);
        How how;
        how.flags = flags;
        for (const int v : chosen) how.writes.push_back(shared[v].handle);
        const int id = t * kPushes + i;
        table.push(how, [&shared, chosen, id](const mx_run_context&) -> mx_failure* {
          for (const int v : chosen) {
            CHECK(shared[v].writers.fetch_add(1) == 0);
            shared[v].log.push_back(id);
          }
          for (const int v : chosen) shared[v].writers.fetch_sub(1);
          return nullptr;
        });
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(table.wait_all().empty());

  // Edges: neighbours in each variable's log; the order exists when they have no cycle.
  std::map<int, std::vector<int>> next;
  std::map<int, int> incoming;
  for (const auto& s : shared) {
    std::vector<int> last(pushers, -1);
    for (size_t i = 0; i < s.log.size(); ++i) {
      const int id = s.log[i];
      CHECK(last[id / kPushes] < id);
      last[id / kPushes] = id;
      incoming.emplace(id, 0);
      if (i > 0) {
        next[s.log[i - 1]].push_back(id);
        ++incoming[id];
      }
    }
  }
  std::vector<int> free;
  for (const auto& [id, n] : incoming) {
    if (n == 0) free.push_back(id);
  }
  size_t ordered = 0;
  while (!free.empty()) {
    const int id = free.back();
    free.pop_back();
    ++ordered;
    for (const int other : next[id]) {
      if (--incoming[other] == 0) free.push_back(other);
    }
  }
  CHECK(ordered == incoming.size());
  for (auto& s : shared) table.remove(s.handle);
  CHECK(table.wait_all().empty());
}

// Waits, deletions and pushes of different threads at the same time.
void everything_at_once(int workers) {
  const Table table(workers);
  mx_variable* common = table.variable();
  std::vector<std::thread> threads;
  std::atomic<int> deleted{0};
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 150; ++i) {
        mx_variable* own = table.variable();
        std::atomic<uint64_t> value{0};
        for (int k = 0; k < 3; ++k) {
          table.push({{common}, {own}, MX_FN_NORMAL, 0, k == 1 ? MX_PUSH_INLINE : 0u},
                     [&value](const mx_run_context&) -> mx_failure* {
                       value.fetch_add(1, std::memory_order_relaxed);
                       return nullptr;
                     });
        }
        if (random() % 4 == 0) table.push({{}, {common}}, [](const mx_run_context&) -> mx_failure* { return nullptr; });
        mx_failure* failure = nullptr;
        mx_error error{};
        const int32_t status = table->wait_for_variable(table.self(), own, random() % 2, 1000,
                                                        &failure, &error);
        CHECK(status == MX_OK || status == MX_TIMEOUT);
        CHECK(table.wait(own).empty());
        CHECK(value.load() == 3);
        table->delete_variable(
            table.self(), own, {MX_CPU, 0},
            [](void* n) { static_cast<std::atomic<int>*>(n)->fetch_add(1); }, &deleted);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  table.remove(common);
  CHECK(table.wait_all().empty());
  CHECK(deleted.load() == 6 * 150);
}

}  // namespace

int main() {
  return run({
      {"crossing write sets, 16 pushers",
       [] {
         for (const int n : kWorkerCounts) crossing(16, n, false, 0);
       }},
      {"crossing write sets, inline", [] { crossing(8, 2, false, MX_PUSH_INLINE); }},
      {"crossing write sets, naive", [] { crossing(8, 1, true, 0); }},
      {"everything at once",
       [] {
         for (const int n : kWorkerCounts) everything_at_once(n);
       }},
  });
}
