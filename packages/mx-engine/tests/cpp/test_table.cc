// SPDX-License-Identifier: Apache-2.0
//
// The contract of the table itself: refusals, ownership, waits with a limit, life cycle, sinks.
#include <atomic>
#include <cstring>
#include <thread>

#include "support.hpp"

using namespace test;

namespace {

mx_failure* succeed(const mx_run_context&) { return nullptr; }

mx_operation bare() {
  mx_operation op{};
  op.size = sizeof op;
  op.context = {MX_CPU, 0};
  op.name = "bare";
  return op;
}

void refusals() {
  const Table table(2);
  mx_variable* v = table.variable();
  mx_variable* w = table.variable();
  mx_variable* vv[] = {v, v};
  mx_variable* one[] = {v};
  struct Case {
    mx_variable* const* reads;
    uint32_t n_reads;
    mx_variable* const* writes;
    uint32_t n_writes;
    const char* says;
  };
  const Case cases[] = {
      {vv, 2, nullptr, 0, "twice among the reads"},
      {nullptr, 0, vv, 2, "twice among the writes"},
      {one, 1, one, 1, "both read and mutated"},
  };
  static std::atomic<int> destroyed;
  destroyed = 0;
  for (const Case& c : cases) {
    mx_operation op = bare();
    op.run = [](void*, const mx_run_context*) -> mx_failure* { std::abort(); };
    op.destroy = [](void*) { ++destroyed; };
    op.reads = c.reads;
    op.n_reads = c.n_reads;
    op.writes = c.writes;
    op.n_writes = c.n_writes;
    mx_error error{};
    CHECK(table->push(table.self(), &op, nullptr, &error) == MX_ERROR_VALUE);
    CHECK(std::strstr(error.message, c.says) != nullptr);
    CHECK(std::strncmp(error.message, "[bare]", 6) == 0);
    CHECK(table->new_operator(table.self(), &op, &error) == nullptr);
  }
  CHECK(destroyed == 6);
  mx_error error{};
  mx_operation op = bare();
  CHECK(table->push(table.self(), &op, nullptr, &error) == MX_ERROR_VALUE);  // no body
  op.run = [](void*, const mx_run_context*) -> mx_failure* { return nullptr; };
  op.property = 99;
  CHECK(table->push(table.self(), &op, nullptr, &error) == MX_ERROR_VALUE);
  op.property = MX_FN_DELETE_VARIABLE;
  CHECK(table->push(table.self(), &op, nullptr, &error) == MX_ERROR_VALUE);
  op.property = MX_FN_NORMAL;
  op.destroy = [](void*) { ++destroyed; };
  for (const uint32_t size : {0u, 8u, static_cast<uint32_t>(MX_OPERATION_SIZE_1_0) - 1}) {
    op.size = size;  // never set: refused, and even so destroyed
    destroyed = 0;
    CHECK(table->push(table.self(), &op, nullptr, &error) == MX_ERROR_ABI && destroyed == 1);
    CHECK(table->new_operator(table.self(), &op, &error) == nullptr && destroyed == 2);
  }
  CHECK(table->pending(table.self()) == 0);
  // Nothing of this left a trace at the variables.
  CHECK(table->variable_ready(table.self(), v, 1) == 1);
  table.remove(v);
  table.remove(w);
}

void operations_of_later_callers_are_taken() {
  const Table table(1);
  struct Later {
    mx_operation known;
    uint64_t added_since[4];
  };
  static std::atomic<int> ran;
  ran = 0;
  Later later{bare(), {1, 2, 3, 4}};
  later.known.size = sizeof later;
  later.known.run = [](void*, const mx_run_context*) -> mx_failure* {
    ++ran;
    return nullptr;
  };
  mx_error error{};
  CHECK(table->push(table.self(), &later.known, nullptr, &error) == MX_OK);
  CHECK(table.wait_all().empty() && ran == 1);
}

void operators_are_pushed_again_and_again() {
  const Table table(2);
  mx_variable* v = table.variable();
  struct Counter {
    std::atomic<int> runs{0}, destroyed{0};
  } counter;
  mx_operation op = bare();
  op.writes = &v;
  op.n_writes = 1;
  op.argument = &counter;
  op.run = [](void* c, const mx_run_context*) -> mx_failure* {
    ++static_cast<Counter*>(c)->runs;
    return nullptr;
  };
  op.destroy = [](void* c) { ++static_cast<Counter*>(c)->destroyed; };
  mx_error error{};
  mx_operator* again = table->new_operator(table.self(), &op, &error);
  CHECK(again != nullptr);
  for (int i = 0; i < 1000; ++i) {
    CHECK(table->push_operator(table.self(), again, {MX_CPU, 0}, i % 3, nullptr, &error) == MX_OK);
  }
  table->delete_operator(table.self(), again);  // in mid-work
  CHECK(table.wait_all().empty());
  CHECK(counter.runs == 1000 && counter.destroyed == 1 && table.version(v) == 1000);
  table.remove(v);
}

void waits_with_a_limit() {
  const Table table(2);
  mx_variable* v = table.variable();
  std::atomic<bool> open{false};
  table.push({{v}, {}}, [&](const mx_run_context&) -> mx_failure* {
    while (!open) sleep_ms(1);
    return nullptr;
  });
  mx_failure* failure = nullptr;
  mx_error error{};
  const auto wait = [&](bool for_write, int64_t ns) {
    return table->wait_for_variable(table.self(), v, for_write, ns, &failure, &error);
  };
  CHECK(wait(false, -1) == MX_OK);  // a read does not keep a reader waiting
  CHECK(wait(true, 0) == MX_TIMEOUT);
  CHECK(wait(true, 3'000'000) == MX_TIMEOUT);
  CHECK(table->wait_for_all(table.self(), 1'000'000, &failure, &error) == MX_TIMEOUT);
  CHECK(table->variable_ready(table.self(), v, 0) == 1);
  CHECK(table->variable_ready(table.self(), v, 1) == 0);
  // A wait that was given up must not keep its place: the next read runs beside the first.
  std::atomic<bool> second{false};
  table.push({{v}, {}}, [&](const mx_run_context&) -> mx_failure* {
    second = true;
    return nullptr;
  });
  for (int i = 0; i < 2000 && !second; ++i) sleep_ms(1);
  CHECK(second);
  // Not even for those that were already queued after it.
  auto* engine = static_cast<Engine*>(table.self());
  mx::engine::VariableWait given_up;
  CHECK(engine->waiting().begin_wait(given_up, v, true, &error) == MX_OK);
  second = false;
  table.push({{v}, {}}, [&](const mx_run_context&) -> mx_failure* {
    second = true;
    return nullptr;
  });
  CHECK(engine->waiting().end_wait(given_up, &failure, nullptr) == MX_TIMEOUT);
  for (int i = 0; i < 2000 && !second; ++i) sleep_ms(1);
  CHECK(second);
  open = true;
  CHECK(wait(true, -1) == MX_OK);
  CHECK(table.version(v) == 0);
  table.remove(v);
}

struct Asked {
  std::atomic<int> times{0};
  int limit = 1'000'000;
  static int32_t go_on(void* self) {
    auto* asked = static_cast<Asked*>(self);
    return ++asked->times < asked->limit ? 1 : 0;
  }
};

// Somebody who is asked whether to go on does not wait for what is pushed meanwhile.
void a_wait_keeps_its_place_while_it_is_asked() {
  const Table table(2);
  mx_variable* v = table.variable();
  std::atomic<bool> first{false}, second{false};
  const auto hold = [](std::atomic<bool>& until) {
    return [&until](const mx_run_context&) -> mx_failure* {
      while (!until) sleep_ms(1);
      return mx::make_failure(MX_ERROR, "told");
    };
  };
  mx_failure* failure = nullptr;
  mx_error error{};
  const auto wait = [&](Asked& asked) {
    return table->wait_for_variable_while(table.self(), v, 0, 1'000'000, &Asked::go_on, &asked, &failure, &error);
  };
  table.push({{}, {v}}, hold(first));
  Asked few;
  few.limit = 3;
  CHECK(wait(few) == MX_TIMEOUT && few.times == 3 && failure == nullptr);
  Asked asked;
  std::thread meanwhile([&] {
    while (asked.times < 5) sleep_ms(1);
    table.push({{}, {v}}, hold(second));
    const int before = asked.times;
    while (asked.times < before + 5) sleep_ms(1);
    first = true;
  });
  CHECK(wait(asked) == MX_OK && !second);
  CHECK(failure != nullptr && std::strcmp(failure->message, "told") == 0);
  failure->release(failure);
  meanwhile.join();
  second = true;
  table.wait_all();  // the second is skipped where it came before the first's failure was heard
  Asked never;
  CHECK(wait(never) == MX_OK && never.times == 0 && failure == nullptr);
  table.remove(v);
}

void a_variable_is_deleted_while_somebody_waits() {
  const Table table(2);
  auto* engine = static_cast<Engine*>(table.self());
  for (int i = 0; i < 300; ++i) {
    mx_variable* v = table.variable();
    auto open = std::make_shared<std::atomic<bool>>(false);
    table.push({{}, {v}}, [open](const mx_run_context&) -> mx_failure* {
      while (!*open) std::this_thread::yield();
      return nullptr;
    });
    mx::engine::VariableWait wait;
    mx_error error{};
    CHECK(engine->waiting().begin_wait(wait, v, i % 2 == 0, &error) == MX_OK);
    table.remove(v);
    *open = true;
    if (i % 3 != 0) engine->waiting().wait_until(wait, mx::engine::deadline(i * 100));
    mx_failure* failure = nullptr;
    const int32_t status = engine->waiting().end_wait(wait, &failure, nullptr);
    CHECK(status == MX_OK || status == MX_TIMEOUT);
  }
  CHECK(table.wait_all().empty());
}

void pushes_after_a_stop() {
  for (const int n : kWorkerCounts) {
    const Table table(n);
    mx_variable* v = table.variable();
    for (int i = 0; i < 60; ++i) {
      for (int k = 0; k < 5; ++k) table.push({{}, {v}}, succeed);
      table->stop(table.self());
      CHECK(table->pending(table.self()) == 0);
    }
    CHECK(table.version(v) == 300);
    table.remove(v);
  }
}

void engines_come_and_go() {
  for (int i = 0; i < 200; ++i) {
    const Table table(2);
    mx_variable* v = table.variable();
    for (int k = 0; k < 4; ++k) table.push({{}, {v}}, succeed);
    table.remove(v);
  }  // released with work pending
}

void the_last_reference_may_go_inside_an_operation() {
  std::atomic<bool> destroyed{false};
  {
    const Table table(2);
    const mx_engine_api* api = table.operator->();
    api->retain(api->self);
    struct Keeper {
      const mx_engine_api* api;
      std::atomic<bool>* destroyed;
    };
    mx_operation op = bare();
    op.argument = new Keeper{api, &destroyed};
    op.run = [](void*, const mx_run_context*) -> mx_failure* {
      sleep_ms(20);
      return nullptr;
    };
    op.destroy = [](void* argument) {
      auto* keeper = static_cast<Keeper*>(argument);
      keeper->api->release(keeper->api->self);
      *keeper->destroyed = true;
      delete keeper;
    };
    mx_error error{};
    CHECK(api->push(api->self, &op, nullptr, &error) == MX_OK);
  }
  for (int i = 0; i < 2000 && !destroyed; ++i) sleep_ms(1);
  CHECK(destroyed);
  sleep_ms(50);  // for the thread that frees the engine
}

void shut_down() {
  const Table table(2);
  mx_variable* v = table.variable();
  mx_variable* busy = table.variable();
  std::atomic<bool> open{false}, inside{false};
  table.push({{}, {busy}}, [&](const mx_run_context&) -> mx_failure* {
    inside = true;
    while (!open) sleep_ms(1);
    return nullptr;
  });
  while (!inside) sleep_ms(1);
  table->notify_shutdown(table.self());
  mx_error error{};
  CHECK(table.try_push({{}, {v}}, succeed, nullptr, &error) == MX_ERROR_SHUTDOWN);
  mx_failure* failure = nullptr;
  CHECK(table->wait_for_variable(table.self(), busy, 0, -1, &failure, &error) ==
        MX_ERROR_SHUTDOWN);
  CHECK(table->wait_for_variable(table.self(), v, 0, -1, &failure, &error) == MX_OK);
  std::atomic<int> freed{0};
  table->delete_variable(
      table.self(), v, {MX_CPU, 0},
      [](void* n) { static_cast<std::atomic<int>*>(n)->fetch_add(1); }, &freed);
  CHECK(freed == 1);
  open = true;
  while (table->pending(table.self()) != 0) sleep_ms(1);
  table.remove(busy);
}

void a_closed_engine_finishes_what_it_has() {
  const Table table(2);
  auto* engine = static_cast<Engine*>(table.self());
  mx_variable* v = table.variable();
  mx_variable* w = table.variable();
  std::atomic<bool> refused{false};
  std::atomic<int> ran{0}, freed{0};
  table.push({{}, {v}}, [&](const mx_run_context&) -> mx_failure* {
    while (!refused) sleep_ms(1);
    table.push({{}, {w}}, [&](const mx_run_context&) { ++ran; return nullptr; });
    return nullptr;
  });
  std::thread pusher([&] {  // keeps pushing until it is refused
    mx_error error{};
    while (table.try_push({{}, {w}}, succeed, nullptr, &error) == MX_OK) {
    }
    CHECK(error.code == MX_ERROR_SHUTDOWN);
    table->delete_variable(  // but may still give back what it has
        table.self(), v, {MX_CPU, 0},
        [](void* n) { static_cast<std::atomic<int>*>(n)->fetch_add(1); }, &freed);
    refused = true;
  });
  CHECK(engine->lifecycle().close(60'000'000'000));
  pusher.join();
  CHECK(ran == 1 && freed == 1);
  table.remove(w);
}

void pushes_wait_for_a_fork_in_the_way_of_the_host() {
  static std::atomic<int> slept;
  slept = 0;
  EngineOptions options;
  options.sleep = []() noexcept {
    ++slept;
    sleep_ms(1);
  };
  auto* engine = new Engine(options);
  CHECK(engine->lifecycle().try_close_for_fork(false));
  CHECK(!engine->lifecycle().try_close_for_fork(true));
  std::atomic<bool> pushed{false};
  std::thread other([&] {
    mx_operation op = bare();
    op.run = [](void*, const mx_run_context*) -> mx_failure* { return nullptr; };
    mx_error error{};
    CHECK(engine->push(op, nullptr, &error) == MX_OK);
    pushed = true;
  });
  while (slept < 3) sleep_ms(1);
  CHECK(!pushed);
  engine->lifecycle().open_after_fork();
  other.join();
  // A fork while the engine closes leaves it closing.
  CHECK(engine->lifecycle().close(60'000'000'000));
  CHECK(engine->lifecycle().try_close_for_fork(false));
  engine->lifecycle().open_after_fork();
  mx_operation op = bare();
  op.run = [](void*, const mx_run_context*) -> mx_failure* { return nullptr; };
  mx_error error{};
  CHECK(engine->push(op, nullptr, &error) == MX_ERROR_SHUTDOWN);
  engine->lifecycle().release();
}

struct Events {
  std::mutex mutex;
  std::vector<mx_engine_event> list;
};

void profiler_sink() {
  const Table table(2);
  mx_variable* v = table.variable();
  table.push({{}, {v}}, succeed);
  table.quiet();
  Events events;
  table->set_sink(
      table.self(),
      [](void* sink, const mx_engine_event* event) {
        auto* to = static_cast<Events*>(sink);
        std::lock_guard<std::mutex> lock(to->mutex);
        to->list.push_back(*event);
      },
      &events);
  table.push({{}, {v}}, succeed);
  table.push({{}, {v}, MX_FN_NORMAL, 0, MX_PUSH_INLINE}, succeed);
  table.push({{}, {v}}, [](const mx_run_context&) { return fail("x"); });
  table.push_async({{}, {v}, MX_FN_NO_SKIP}, [&](const mx_run_context&, mx_completion* done) { table.complete(done); });
  CHECK(table.wait_all() == "x");
  table->set_sink(table.self(), nullptr, nullptr);
  table.push({{}, {v}}, succeed);
  CHECK(table.wait_all().empty());
  CHECK(events.list.size() == 4);
  int failed = 0;
  for (const auto& e : events.list) {
    CHECK(e.size == sizeof e && e.thread > 0 && std::string(e.name) == "test");
    CHECK(e.pushed <= e.started && e.started <= e.finished);
    failed += e.failed;
  }
  CHECK(failed == 1);
  table.remove(v);
}

void interned_texts() {
  const Table table(1);
  std::string text = "Convolution";
  const char* a = table->intern(table.self(), text.c_str());
  text[0] = 'X';
  CHECK(std::strcmp(a, "Convolution") == 0);
  CHECK(a == table->intern(table.self(), "Convolution"));
  CHECK(table->intern(table.self(), nullptr) == nullptr);
}

void head_and_bulk() {
  const Table table(1);
  CHECK(table->head.size == sizeof(mx_engine_api));
  CHECK(table->head.major == MX_ENGINE_MAJOR && table->head.minor == MX_ENGINE_MINOR);
  CHECK(table->set_bulk_size(table.self(), 15) == 0);
  CHECK(table->set_bulk_size(table.self(), 0) == 15);
  CHECK(table->set_bulk_size(table.self(), 0) == 0);
}

}  // namespace

int main() {
  return run({
      {"refusals", refusals},
      {"operators", operators_are_pushed_again_and_again},
      {"operations of later callers", operations_of_later_callers_are_taken},
      {"waits with a limit", waits_with_a_limit},
      {"keeps its place", a_wait_keeps_its_place_while_it_is_asked},
      {"deletion during a wait", a_variable_is_deleted_while_somebody_waits},
      {"pushes after a stop", pushes_after_a_stop},
      {"engines come and go", engines_come_and_go},
      {"the last reference goes inside an operation", the_last_reference_may_go_inside_an_operation},
      {"shut-down", shut_down},
      {"a closed engine", a_closed_engine_finishes_what_it_has},
      {"pushes during a fork", pushes_wait_for_a_fork_in_the_way_of_the_host},
      {"profiler sink", profiler_sink},
      {"interned texts", interned_texts},
      {"head and bulk size", head_and_bulk},
  });
}
