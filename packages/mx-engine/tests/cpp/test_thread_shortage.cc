// SPDX-License-Identifier: Apache-2.0
//
// The system gives no more threads: those that exist do the work, and the thread that pushes if there is none.
#include <dlfcn.h>

#include <atomic>
#include <cerrno>

#include "support.hpp"

namespace {
std::atomic<bool> short_of_threads{false};
}

// In the place of the library's.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                              void* argument) noexcept {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
  return short_of_threads ? EAGAIN : create(thread, attributes, start, argument);
}

using namespace test;

namespace {

struct Shortage {
  Shortage() { short_of_threads = true; }
  ~Shortage() { short_of_threads = false; }
};

// Pushes an operation and returns the thread that ran it.
std::thread::id runner_of(const Table& table, mx_variable* v) {
  std::thread::id runner;
  table.push({{}, {v}}, [&](const mx_run_context&) -> mx_failure* {
    runner = std::this_thread::get_id();
    return nullptr;
  });
  CHECK(table.wait(v).empty());
  return runner;
}

// So many operations that end only when all of them run.
void run_together(const Table& table, int n) {
  std::atomic<int> running{0}, alone{0};
  for (int i = 0; i < n; ++i) {
    table.push({}, [&, n](const mx_run_context&) -> mx_failure* {
      ++running;
      for (int ms = 0; running < n; ++ms) {
        if (ms == 20000) {
          ++alone;
          break;
        }
        sleep_ms(1);
      }
      return nullptr;
    });
  }
  CHECK(table.wait_all().empty() && alone == 0);
}

void without_any_thread_who_pushes_works() {
  const Table table(2);
  mx_variable* v = table.variable();
  {
    const Shortage shortage;
    for (int i = 0; i < 3; ++i) CHECK(runner_of(table, v) == std::this_thread::get_id());
  }
  CHECK(runner_of(table, v) != std::this_thread::get_id());
  run_together(table, 2);  // as many threads come as may
  table.remove(v);
}

void the_threads_that_exist_do_the_work() {
  const Table table(3);
  mx_variable* v = table.variable();
  CHECK(runner_of(table, v) != std::this_thread::get_id());
  std::atomic<int> ran{0};
  std::atomic<bool> elsewhere{false};
  {
    const Shortage shortage;
    const auto here = std::this_thread::get_id();
    for (int i = 0; i < 100; ++i) {
      table.push({}, [&, here](const mx_run_context&) -> mx_failure* {
        if (std::this_thread::get_id() != here) elsewhere = true;
        ++ran;
        return nullptr;
      });
    }
    CHECK(table.wait_all().empty() && ran == 100 && elsewhere);
  }
  run_together(table, 3);
  table.remove(v);
}

void an_engine_that_was_short_of_threads_stops() {
  const Table table(2);
  mx_variable* v = table.variable();
  {
    const Shortage shortage;
    runner_of(table, v);
  }
  auto* engine = static_cast<Engine*>(table.self());
  CHECK(engine->lifecycle().stop(10'000'000'000));
  run_together(table, 2);
  CHECK(engine->lifecycle().stop(10'000'000'000));
  table.remove(v);
}

}  // namespace

int main() {
  return run({
      {"no thread at all", without_any_thread_who_pushes_works},
      {"some threads", the_threads_that_exist_do_the_work},
      {"the end", an_engine_that_was_short_of_threads_stops},
  });
}
