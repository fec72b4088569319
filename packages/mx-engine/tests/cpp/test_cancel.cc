// SPDX-License-Identifier: Apache-2.0
//
// Operations that have not begun when the engine is told to cancel, on the host and on a device.
#include <atomic>

#include "fake_device.hpp"
#include "support.hpp"

using namespace test;

namespace {

// An engine that the test keeps, and its table.
struct Cancelled {
  explicit Cancelled(int workers) {
    EngineOptions options;
    options.limits.compute = workers;
    engine = new Engine(options);
    table = engine->table();
  }
  ~Cancelled() { engine->lifecycle().release(); }
  Engine* engine;
  mx_engine_api* table;
};

mx_operation operation(std::atomic<int>* ran, mx_variable* const* writes, mx_context context) {
  mx_operation op{};
  op.size = sizeof op;
  op.context = context;
  op.name = "test";
  op.writes = writes;
  op.n_writes = 1;
  op.argument = ran;
  op.run = [](void* argument, const mx_run_context*) -> mx_failure* {
    ++*static_cast<std::atomic<int>*>(argument);
    sleep_ms(20);
    return nullptr;
  };
  return op;
}

std::string wait(const Cancelled& c, mx_variable* v) {
  mx_failure* failure = nullptr;
  mx_error error{};
  CHECK(c.table->wait_for_variable(c.engine, v, 0, 60'000'000'000, &failure, &error) == MX_OK);
  const FailureRef owned(failure);
  return failure == nullptr ? "" : failure->message;
}

void scenario(const Cancelled& c, mx_context context) {
  constexpr int kPushed = 200;
  std::atomic<int> ran{0}, destroyed{0};
  mx_variable* v = c.table->new_variable(c.engine);
  mx_error error{};
  for (int i = 0; i < kPushed; ++i) {
    const mx_operation op = operation(&ran, &v, context);
    CHECK(c.table->push(c.engine, &op, nullptr, &error) == MX_OK);
    if (i == 100) c.engine->completion().cancel("the end");
  }
  c.engine->completion().cancel("another end");  // the first counts
  CHECK(wait(c, v) == "the end");
  CHECK(wait(c, v) == "the end");  // whoever asks is told
  CHECK(c.engine->waiting().drain(60'000'000'000));
  CHECK(ran <= 101);
  CHECK(c.table->variable_version(c.engine, v) == kPushed);
  CHECK(c.engine->failures().unobserved(nullptr) == 0);
  mx_failure* failure = nullptr;
  CHECK(c.table->wait_for_all(c.engine, -1, &failure, &error) == MX_OK && failure == nullptr);
  CHECK(wait(c, v) == "the end");
  c.table->delete_variable(c.engine, v, context, [](void* argument) { ++*static_cast<std::atomic<int>*>(argument); },
                           &destroyed);
  CHECK(c.engine->waiting().drain(60'000'000'000));
  CHECK(destroyed == 1);
}

void on_the_host() {
  for (const int workers : kWorkerCounts) scenario(Cancelled(workers), {MX_CPU, 0});
}

void on_a_device() {
  FakeDevice device;
  const Cancelled c(2);
  mx_error error{};
  CHECK(c.table->attach_device(c.engine, device.table(), &error) == MX_OK);
  scenario(c, device.context());
}

}  // namespace

int main() { return run({{"on_the_host", on_the_host}, {"on_a_device", on_a_device}}); }
