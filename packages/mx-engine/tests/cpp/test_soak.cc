// SPDX-License-Identifier: Apache-2.0
//
// Long runs: memory stays flat, a failure may come anywhere, engines come and go, memory may run
// out.  MX_TEST_PUSHES sets how many operations the longest one pushes.
#include <unistd.h>

#include <atomic>
#include <new>

#include "fake_device.hpp"
#include "program.hpp"
#include "support.hpp"

using namespace test;

namespace {

thread_local bool no_memory = false;

}  // namespace

// All of them, as sanitizers bring their own of what is missing.
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return no_memory ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
}
[[gnu::noinline]] void* operator new(size_t bytes) {
  void* memory = operator new(bytes, std::nothrow);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new[](size_t bytes) { return operator new(bytes); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return operator new(bytes, std::nothrow);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { operator delete(memory); }
void operator delete[](void* memory) noexcept { operator delete(memory); }
void operator delete[](void* memory, size_t) noexcept { operator delete(memory); }

namespace {

long from_environment(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atol(text);
}

double resident_mib() {
  long pages = 0, resident = 0;
  FILE* file = std::fopen("/proc/self/statm", "r");
  CHECK(file != nullptr && std::fscanf(file, "%ld %ld", &pages, &resident) == 2);
  std::fclose(file);
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

mx_failure* nothing(const mx_run_context&) { return nullptr; }

// The debugging engine has no memory to note an operation with: the operation runs all the same, and its
// variables are free.
void operations_that_the_monitor_has_no_memory_for() {
  EngineOptions options;
  options.debug = true;
  const Table table(options);
  mx_variable* v = table.variable();
  int runs = 0;
  mx_operation op{};
  op.size = sizeof op;
  op.flags = MX_PUSH_INLINE;
  op.context = {MX_CPU, 0};
  op.writes = &v;
  op.n_writes = 1;
  op.argument = &runs;
  op.run = [](void* argument, const mx_run_context*) -> mx_failure* {
    ++*static_cast<int*>(argument);
    return nullptr;
  };
  mx_error error{};
  CHECK(table->push(table.self(), &op, nullptr, &error) == MX_OK);  // its memory is used again
  no_memory = true;
  const int32_t status = table->push(table.self(), &op, nullptr, &error);
  no_memory = false;
  CHECK(status == MX_OK && runs == 2);
  CHECK(table->push(table.self(), &op, nullptr, &error) == MX_OK && runs == 3);
  CHECK(table.version(v) == 3);
  table.remove(v);
}

// A deletion must get through when there is no memory to queue it.  First in the program: what was
// freed before would be memory, too.
void deletions_without_memory() {
  const Table table(2);
  std::atomic<int> deleted{0};
  const auto remove_without_memory = [&](mx_variable* v) {
    std::thread([&] {  // which has no memory in reserve
      no_memory = true;
      table->delete_variable(table.self(), v, {MX_CPU, 0}, [](void* n) { ++*static_cast<std::atomic<int>*>(n); },
                             &deleted);
      no_memory = false;
    }).join();
  };
  remove_without_memory(table.variable());
  CHECK(deleted == 1);
  mx_variable* v = table.variable();
  std::atomic<bool> open{false};
  for (int i = 0; i < 2; ++i) {
    table.push({{}, {v}}, [&](const mx_run_context&) -> mx_failure* {
      while (!open) sleep_ms(1);
      return nullptr;
    });
    table.push({{v}, {}}, nothing);
  }
  remove_without_memory(v);
  CHECK(deleted == 1 && table->pending(table.self()) == 5);
  open = true;
  table.quiet();
  CHECK(deleted == 2);
}

void memory_stays_flat() {
  const long pushes = from_environment("MX_TEST_PUSHES", 1'000'000);
  FakeDevice device(MX_FIRST_PLUGIN_DEVICE, 1, 0);
  const Table table(2);
  mx_error error{};
  CHECK(table->attach_device(table.self(), device.table(), &error) == MX_OK);
  Generator random(11, 40);
  std::vector<mx_variable*> v;
  for (int i = 0; i < 40; ++i) v.push_back(table.variable());
  double before = 0;
  for (long i = 0; i < pushes; ++i) {
    const Step step = random.step(1);
    How how;
    for (const int r : step.reads) how.reads.push_back(v[r]);
    for (const int w : step.writes) how.writes.push_back(v[w]);
    how.priority = step.priority;
    if (step.manner == Manner::inlined) how.flags = MX_PUSH_INLINE;
    if (i % 50 == 0) how.context = device.context();
    const bool fails = step.fails;
    table.push(how, [fails](const mx_run_context&) { return fails ? fail("soak") : nullptr; });
    if (i % 7 == 0) {
      const size_t at = static_cast<size_t>(random.below(40));
      table.remove(v[at]);
      v[at] = table.variable();
    }
    if (i % 101 == 0) {
      std::vector<mx_variable*> some;
      for (const int at : random.some(3)) some.push_back(v[static_cast<size_t>(at)]);
      mx_variable* joint = nullptr;
      CHECK(table->join_variables(table.self(), some.data(), 3, &joint, &error) != MX_ERROR_MEMORY);
    }
    if (i % 500 == 0) {
      table.wait(v[static_cast<size_t>(random.below(40))], true);
      while (table->pending(table.self()) > 5000) sleep_ms(1);
    }
    if (i == pushes / 5) {
      table.wait_all();
      before = resident_mib();
    }
  }
  table.wait_all();
  const double grown = resident_mib() - before;
  std::printf("  %ld pushes: %.1f MiB, %+.1f MiB\n", pushes, before, grown);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which keep what is freed
  CHECK(grown < 8);
#endif
  for (mx_variable* each : v) table.remove(each);
  table.quiet();
}

// The failure of each of a thousand operations, one after another.
void a_failure_at_every_position() {
  constexpr int kSteps = 1000, kVariables = 30;
  std::vector<Step> graph;
  Generator random(5, kVariables);
  for (int i = 0; i < kSteps; ++i) graph.push_back(random.step(0));
  const Table table(3);
  for (int failing = 0; failing < kSteps; ++failing) {
    Model model(kVariables);
    std::vector<mx_variable*> v;
    for (int i = 0; i < kVariables; ++i) v.push_back(table.variable());
    for (int i = 0; i < kSteps; ++i) {
      Step step = graph[static_cast<size_t>(i)];
      step.fails = i == failing;
      How how;
      for (const int r : step.reads) how.reads.push_back(v[r]);
      for (const int w : step.writes) how.writes.push_back(v[w]);
      how.property = step.no_skip ? MX_FN_NO_SKIP : MX_FN_NORMAL;
      how.flags = step.manner == Manner::inlined ? MX_PUSH_INLINE : 0;
      if (step.fails) {
        table.push(how, [step](const mx_run_context&) { return fail(failure_text(step)); });
      } else {
        table.push(how, nothing);
      }
      model.execute(step);
    }
    table.quiet();
    for (int i = 0; i < kVariables; ++i) {
      CHECK(table.failure_of(v[i]) == model.mark(i) && table.version(v[i]) == model.version(i));
    }
    CHECK(table.wait_all() == failure_text(graph[static_cast<size_t>(failing)]));
    for (mx_variable* each : v) table.remove(each);
  }
}

void engines_come_and_go() {
  std::atomic<int> ran{0};
  const int cycles = static_cast<int>(from_environment("MX_TEST_CYCLES", 1000));
  const Table lasting(2);
  for (int i = 0; i < cycles; ++i) {
    const Table table(1 + i % 3, i % 10 == 0);
    mx_variable* v = table.variable();
    for (int j = 0; j < 3; ++j) {
      table.push({{}, {v}}, [&](const mx_run_context&) -> mx_failure* {
        ++ran;
        return nullptr;
      });
    }
    table.remove(v);
    lasting.push({}, nothing);
    lasting->stop(lasting.self());
  }
  CHECK(ran == 3 * cycles);
}

}  // namespace

int main() {
  return run({
      {"deletions without memory", deletions_without_memory},
      {"operations that the monitor has no memory for", operations_that_the_monitor_has_no_memory_for},
      {"memory stays flat", memory_stays_flat},
      {"a failure at every position", a_failure_at_every_position},
      {"engines come and go", engines_come_and_go},
  });
}
