// SPDX-License-Identifier: Apache-2.0
//
// Where and when operations run: overlap, priorities, lanes, inline, waits inside operations.
#include <algorithm>
#include <atomic>
#include <ctime>
#include <mutex>
#include <set>
#include <thread>

#include "support.hpp"

using namespace test;

namespace {

// Holds operations back until opened.
class Gate {
 public:
  void open() { open_ = true; }
  void pass() const {
    while (!open_) sleep_ms(1);
  }

 private:
  std::atomic<bool> open_{false};
};

void readers_overlap(int workers) {
  const Table table(workers);
  mx_variable* v = table.variable();
  std::atomic<int> inside{0};
  for (int i = 0; i < workers; ++i) {
    // Ends only when all are inside at the same time.
    table.push({{v}, {}}, [&, workers](const mx_run_context&) -> mx_failure* {
      ++inside;
      while (inside < workers) std::this_thread::yield();
      return nullptr;
    });
  }
  CHECK(table.wait(v, true).empty());
  CHECK(inside == workers);
  CHECK(table.version(v) == 0);
  table.remove(v);
}

void priorities() {
  const Table table(1);
  Gate gate;
  std::vector<int> order;
  table.push({}, [&](const mx_run_context&) -> mx_failure* {
    gate.pass();
    return nullptr;
  });
  for (const int priority : {0, -3, 5, 0, 9, -1, 5, -3}) {
    How how;
    how.priority = priority;
    table.push(how, [&order, priority](const mx_run_context&) -> mx_failure* {
      order.push_back(priority);
      return nullptr;
    });
  }
  gate.open();
  CHECK(table.wait_all().empty());
  CHECK((order == std::vector<int>{9, 5, 5, 0, 0, -1, -3, -3}));
}

void one_thread_for_parallel_work(int workers) {
  const Table table(workers);
  mx_variable* v = table.variable();
  std::mutex mutex;
  std::set<std::thread::id> parallel, general;
  std::atomic<int> inside{0};
  for (int i = 0; i < 200; ++i) {
    How how{{}, {v}};
    how.flags = i % 2 == 0 ? MX_PUSH_PARALLEL : MX_PUSH_INLINE;  // small work in between
    table.push(how, [&, i](const mx_run_context&) -> mx_failure* {
      if (i % 2 == 0) CHECK(inside.fetch_add(1) == 0);
      {
        std::lock_guard<std::mutex> lock(mutex);
        (i % 2 == 0 ? parallel : general).insert(std::this_thread::get_id());
      }
      if (i % 2 == 0) --inside;
      return nullptr;
    });
  }
  CHECK(table.wait_all().empty());
  CHECK(parallel.size() == 1);
  CHECK(general.size() <= static_cast<size_t>(workers) + 1);  // the pushing thread runs some itself
  table.remove(v);
}

void one_parallel_operation_at_a_time(int workers) {
  const Table table(workers);
  std::atomic<int> inside{0};
  for (int i = 0; i < 400; ++i) {
    How how;
    how.flags = i % 2 == 0 ? MX_PUSH_PARALLEL : 0;
    table.push(how, [&, i](const mx_run_context&) -> mx_failure* {
      if (i % 2 == 0) CHECK(inside.fetch_add(1) == 0);
      std::this_thread::yield();
      if (i % 2 == 0) --inside;
      return nullptr;
    });
  }
  CHECK(table.wait_all().empty());
}

// A parallel operation that waits for another one does not keep it from running.
void parallel_work_waits_for_parallel_work() {
  const Table table(1);
  mx_variable* v = table.variable();
  How how;
  how.flags = MX_PUSH_PARALLEL;
  table.push(how, [&](const mx_run_context&) -> mx_failure* {
    table.push({{}, {v}, MX_FN_NORMAL, 0, MX_PUSH_PARALLEL},
               [](const mx_run_context&) -> mx_failure* { return nullptr; });
    CHECK(table.wait(v).empty());
    return nullptr;
  });
  CHECK(table.wait_all().empty());
  CHECK(table.version(v) == 1);
  table.remove(v);
}

void priority_lane_passes_busy_workers() {
  const Table table(1);
  Gate gate;
  mx_variable* v = table.variable();
  table.push({}, [&](const mx_run_context&) -> mx_failure* {
    gate.pass();
    return nullptr;
  });
  table.push({{}, {v}, MX_FN_CPU_PRIORITIZED},
             [](const mx_run_context&) -> mx_failure* { return nullptr; });
  CHECK(table.wait(v).empty());  // while the only worker is busy
  gate.open();
  CHECK(table.wait_all().empty());
  table.remove(v);
}

void devices_have_their_own_threads(bool per_device) {
  const Table table(1, false, per_device);
  std::atomic<int> inside{0};
  Gate gate;
  for (int id = 0; id < 3; ++id) {
    How how;
    how.context = {MX_CPU, id};
    table.push(how, [&](const mx_run_context& run) -> mx_failure* {
      CHECK(run.context.type == MX_CPU && run.worker > 0);
      ++inside;
      gate.pass();
      return nullptr;
    });
  }
  for (int i = 0; i < 2000 && inside < 3; ++i) sleep_ms(per_device ? 1 : 0);
  CHECK(inside == (per_device ? 3 : inside.load()));
  gate.open();
  CHECK(table.wait_all().empty());
  CHECK(inside == 3);
}

void nested(int depth, const Table& table, std::atomic<int>& done) {
  if (depth == 0) return;
  mx_variable* v = table.variable();
  for (const uint32_t flags : {0u, static_cast<uint32_t>(MX_PUSH_PYTHON)}) {
    table.push({{}, {v}, MX_FN_NORMAL, 0, flags},
               [&table, &done, depth](const mx_run_context&) -> mx_failure* {
                 nested(depth - 1, table, done);
                 ++done;
                 return nullptr;
               });
  }
  CHECK(table.wait(v).empty());
  table.remove(v);
}

void waits_inside_operations() {
  for (const int workers : {1, 2}) {
    const Table table(workers);
    std::atomic<int> done{0};
    nested(4, table, done);
    CHECK(done == 2 + 4 + 8 + 16);
  }
}

void waiting_for_oneself_is_refused(bool naive) {
  const Table table(2, naive);
  mx_variable* v = table.variable();
  mx_variable* w = table.variable();
  std::atomic<int> refused{0};
  table.push({{w}, {v}}, [&](const mx_run_context&) -> mx_failure* {
    mx_error error{};
    mx_failure* failure = nullptr;
    if (table->wait_for_variable(table.self(), v, 0, -1, &failure, &error) == MX_ERROR) ++refused;
    if (table->wait_for_variable(table.self(), w, 1, -1, &failure, &error) == MX_ERROR) ++refused;
    if (table->wait_for_all(table.self(), -1, &failure, &error) == MX_ERROR) ++refused;
    // Reading what this operation reads too has nothing to wait for.
    CHECK(table->wait_for_variable(table.self(), w, 0, -1, &failure, &error) == MX_OK);
    return nullptr;
  });
  CHECK(table.wait_all().empty());
  CHECK(refused == 3);
  table.remove(v);
  table.remove(w);
}

void inline_runs_here_when_ready() {
  const Table table(2);
  mx_variable* v = table.variable();
  const auto here = std::this_thread::get_id();
  std::thread::id ran;
  const Body note = [&ran](const mx_run_context& run) -> mx_failure* {
    ran = std::this_thread::get_id();
    CHECK(run.size == sizeof(mx_run_context));
    return nullptr;
  };
  table.push({{}, {v}, MX_FN_NORMAL, 0, MX_PUSH_INLINE}, note);
  CHECK(ran == here && table.version(v) == 1);

  Gate gate;
  table.push({{}, {v}}, [&](const mx_run_context&) -> mx_failure* {
    gate.pass();
    return nullptr;
  });
  table.push({{}, {v}, MX_FN_NORMAL, 0, MX_PUSH_INLINE}, note);  // not ready: a worker's
  gate.open();
  CHECK(table.wait(v).empty());
  CHECK(ran != here);
  table.remove(v);
}

void deep_inline_recursion() {
  const Table table(2);
  static thread_local int depth = 0;
  const auto here = std::this_thread::get_id();
  int deepest = 0;  // on this thread
  std::atomic<int> left{5000};
  std::function<void()> again = [&] {
    if (left.fetch_sub(1) <= 0) return;
    How how;
    how.flags = MX_PUSH_INLINE;
    table.push(how, [&](const mx_run_context&) -> mx_failure* {
      CHECK(++depth <= 16);
      if (std::this_thread::get_id() == here) deepest = std::max(deepest, depth);
      again();
      --depth;
      return nullptr;
    });
  };
  again();
  CHECK(table.wait_all().empty());
  CHECK(left <= 0);
  CHECK(deepest == 16);
}

// Inside an operation a naive push that has to wait for that operation runs after it.
void naive_push_inside_an_operation() {
  const Table table(1, true);
  mx_variable* v = table.variable();
  std::vector<int> order;
  table.push({{}, {v}}, [&](const mx_run_context&) -> mx_failure* {
    table.push({{}, {v}}, [&](const mx_run_context&) -> mx_failure* {
      order.push_back(2);
      return nullptr;
    });
    order.push_back(1);
    return nullptr;
  });
  CHECK((order == std::vector<int>{1, 2}));
  table.remove(v);
}

void thousands_of_variables() {
  const Table table(2);
  std::vector<mx_variable*> all;
  for (int i = 0; i < 5000; ++i) all.push_back(table.variable());
  std::atomic<int> ran{0};
  for (int k = 0; k < 20; ++k) {
    How how;
    (k % 2 == 0 ? how.reads : how.writes) = all;
    table.push(how, [&ran](const mx_run_context&) -> mx_failure* {
      ++ran;
      return nullptr;
    });
  }
  CHECK(table.wait_all().empty());
  CHECK(ran == 20 && table.version(all[4999]) == 10);
  for (mx_variable* v : all) table.remove(v);
}

void workers_can_be_changed() {
  const Table table(1);
  for (const int n : {3, 1, 4, 2}) {
    CHECK(table->set_workers(table.self(), n) == n);
    CHECK(table->workers(table.self()) == n);
    std::atomic<int> inside{0};
    for (int i = 0; i < n; ++i) {
      table.push({}, [&inside, n](const mx_run_context&) -> mx_failure* {
        ++inside;
        while (inside < n) std::this_thread::yield();
        return nullptr;
      });
    }
    CHECK(table.wait_all().empty());
  }
  CHECK(table->set_workers(table.self(), -7) == 1);
}

void idle_workers_sleep() {
  const Table table(4);
  for (int i = 0; i < 1000; ++i) {
    table.push({}, [](const mx_run_context&) -> mx_failure* { return nullptr; });
  }
  CHECK(table.wait_all().empty());
  sleep_ms(20);
  const std::clock_t before = std::clock();  // processor time of all threads
  sleep_ms(300);
  CHECK(std::clock() - before < CLOCKS_PER_SEC / 50);
}

void parallel_work_does_not_wait_for_general_work() {
  const Table table(2);
  mx_variable* v = table.variable();
  const How parallel{{}, {v}, MX_FN_NORMAL, 0, MX_PUSH_PARALLEL};
  const auto nothing = [](const mx_run_context&) -> mx_failure* { return nullptr; };
  for (int i = 0; i < 20; ++i) {
    // Whoever has just run parallel work would be the first to be woken for a long general operation.
    table.push(parallel, nothing);
    CHECK(table.wait(v, false).empty());
    Gate gate;
    std::atomic<bool> begun{false};
    table.push({}, [&](const mx_run_context&) -> mx_failure* {
      begun = true;
      gate.pass();
      return nullptr;
    });
    while (!begun) std::this_thread::yield();
    table.push(parallel, nothing);
    CHECK(table.wait(v, false).empty());  // the general operation still runs
    gate.open();
    CHECK(table.wait_all().empty());
  }
  table.remove(v);
}

// A thread-local object of a plug-in that gives variables back when its thread ends: after the end of
// the thread's cache of blocks, since it was made before it.
struct LateUser {
  const Table* table = nullptr;
  std::vector<mx_variable*> variables;
  ~LateUser() {
    for (mx_variable* v : variables) table->remove(v);
  }
};

void blocks_have_one_owner_when_threads_end() {
  const Table table(2);
  for (int round = 0; round < 50; ++round) {
    std::thread([&] {
      static thread_local LateUser late;
      late.table = &table;
      for (int i = 0; i < 300; ++i) {
        late.variables.push_back(table.variable());
        table.push({{}, {late.variables.back()}}, [](const mx_run_context&) -> mx_failure* { return nullptr; });
      }
      CHECK(table.wait_all().empty());
    }).join();
    mx_variable* v = table.variable();
    for (int i = 0; i < 300; ++i) {
      table.push({{}, {v}}, [](const mx_run_context&) -> mx_failure* { return nullptr; });
    }
    CHECK(table.wait(v, true).empty() && table.version(v) == 300);
    table.remove(v);
  }
}

}  // namespace

int main() {
  return run({
      {"readers overlap",
       [] {
         for (const int n : kWorkerCounts) readers_overlap(n);
       }},
      {"priorities", priorities},
      {"one thread for parallel work",
       [] {
         for (const int n : {1, 2, 7}) one_thread_for_parallel_work(n);
       }},
      {"one parallel operation at a time",
       [] {
         for (const int n : {1, 2, 7}) one_parallel_operation_at_a_time(n);
       }},
      {"parallel work waits for parallel work", parallel_work_waits_for_parallel_work},
      {"parallel work beside general work", parallel_work_does_not_wait_for_general_work},
      {"blocks when threads end", blocks_have_one_owner_when_threads_end},
      {"priority lane", priority_lane_passes_busy_workers},
      {"devices",
       [] {
         devices_have_their_own_threads(true);
         devices_have_their_own_threads(false);
       }},
      {"waits inside operations", waits_inside_operations},
      {"waiting for oneself",
       [] {
         waiting_for_oneself_is_refused(false);
         waiting_for_oneself_is_refused(true);
       }},
      {"inline", inline_runs_here_when_ready},
      {"deep inline recursion", deep_inline_recursion},
      {"naive push inside an operation", naive_push_inside_an_operation},
      {"thousands of variables", thousands_of_variables},
      {"workers can be changed", workers_can_be_changed},
      {"idle workers sleep", idle_workers_sleep},
  });
}
