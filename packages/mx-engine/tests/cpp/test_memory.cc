// SPDX-License-Identifier: Apache-2.0
//
// An engine that ends leaves no memory behind.
#include <atomic>
#include <cstdlib>
#include <new>

#include "fake_device.hpp"
#include "support.hpp"

namespace {
std::atomic<long> alive{0};  // allocations of C++
}

#ifndef __SANITIZE_ADDRESS__  // which has its own, and finds leaks itself
void* operator new(size_t bytes) {
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  ++alive;
  return memory;
}
void operator delete(void* memory) noexcept {
  if (memory == nullptr) return;
  --alive;
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept { operator delete(memory); }
#endif

using namespace test;

namespace {

// What is pushed to an engine that then ends.
using Use = void (*)(const Table&);

void operations(const Table& table) {
  mx_variable *a = table.variable(), *b = table.variable();
  for (int i = 0; i < 100; ++i) {
    table.push({{a}, {b}}, [](const mx_run_context&) -> mx_failure* { return nullptr; });
    table.push({{b}, {a}}, [i](const mx_run_context&) { return i % 10 == 0 ? fail("broke") : nullptr; });
  }
  CHECK(!table.wait(a).empty());
  table.remove(a);
  table.remove(b);
}

void repeated_operations(const Table& table) {
  mx_variable* v = table.variable();
  mx_operation prototype{};
  prototype.size = sizeof prototype;
  prototype.context = {MX_CPU, 0};
  prototype.name = "repeated";
  prototype.writes = &v;
  prototype.n_writes = 1;
  prototype.run = [](void*, const mx_run_context*) -> mx_failure* { return nullptr; };
  mx_error error{};
  mx_operator* op = table->new_operator(table.self(), &prototype, &error);
  for (int i = 0; i < 10; ++i) {
    CHECK(table->push_operator(table.self(), op, {MX_CPU, 0}, 0, nullptr, &error) == MX_OK);
  }
  table->delete_operator(table.self(), op);
  CHECK(table.wait(v).empty() && table.version(v) == 10);
  table.remove(v);
}

void refusals(const Table& table) {
  mx_variable* v = table.variable();
  mx_error error{};
  const auto nothing = [](const mx_run_context&) -> mx_failure* { return nullptr; };
  CHECK(table.try_push({{v}, {v}}, nothing, nullptr, &error) == MX_ERROR_VALUE);
  How elsewhere{{}, {v}};
  elsewhere.context = {MX_FIRST_PLUGIN_DEVICE, 0};
  CHECK(table.try_push(elsewhere, nothing, nullptr, &error) != MX_OK);
  table.remove(v);
}

void devices(const Table& table) {
  static FakeDevice device, other(MX_FIRST_PLUGIN_DEVICE + 1);
  mx_error error{};
  mx_variable* v = table.variable();
  for (const FakeDevice* each : {&device, &other}) {
    CHECK(table->attach_device(table.self(), each->table(), &error) == MX_OK);
    for (const int32_t property : {MX_FN_NORMAL, MX_FN_COPY_TO_DEVICE}) {
      How how{{}, {v}};
      how.context = each->context(0);
      how.property = property;
      for (int i = 0; i < 10; ++i) {
        table.push(how, [](const mx_run_context& run) -> mx_failure* {
          FakeDevice::enqueue(run.stream, [] {});
          return nullptr;
        });
      }
    }
  }
  CHECK(table.wait(v).empty());
  table.remove(v);
}

// What grows by one in each round is found.  The process keeps the memory of as many operations as were
// once pending together, which is chance: at most the 200 that are pushed and a batch of 64 for each
// of three threads.
void engines_leave_nothing(Use use, bool debug) {
  constexpr int kWarmUp = 20, kChance = 200 + 3 * 64;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // the one finds leaks itself, both are slow
  constexpr int kRounds = 20;
#else
  constexpr int kRounds = 2 * kChance;
#endif
  long first = 0;
  for (int round = 0; round < kWarmUp + kRounds; ++round) {
    if (round == kWarmUp) first = alive;
    EngineOptions options;
    options.debug = debug;
    options.limits.compute = 2;
    use(Table(options));
  }
  if (alive > first + kChance) std::fprintf(stderr, "%ld allocations more\n", alive - first);
  CHECK(alive <= first + kChance);
}

}  // namespace

int main() {
  const auto each = [](Use use) {
    return [use] {
      for (const bool debug : {false, true}) engines_leave_nothing(use, debug);
    };
  };
  return run({
      {"operations", each(operations)},
      {"repeated operations", each(repeated_operations)},
      {"refusals", each(refusals)},
      {"devices", each(devices)},
  });
}
