// SPDX-License-Identifier: Apache-2.0
//
// Variables that were joined are one: in what is ordered, waited for, counted, failed, and deleted.
#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "fake_device.hpp"
#include "support.hpp"

using namespace test;

namespace {

mx_failure* succeed(const mx_run_context&) { return nullptr; }

int32_t try_join(const Table& table, const std::vector<mx_variable*>& variables, mx_variable** joint) {
  mx_error error{};
  return table->join_variables(table.self(), variables.data(), static_cast<uint32_t>(variables.size()), joint, &error);
}

mx_variable* join(const Table& table, const std::vector<mx_variable*>& variables) {
  mx_variable* joint = nullptr;
  CHECK(try_join(table, variables, &joint) == MX_OK && joint != nullptr);
  return joint;
}

// An operation that runs until it is told to end.
class Gate {
 public:
  Gate(const Table& table, How how) {
    table.push(how, [this](const mx_run_context&) -> mx_failure* {
      while (!open_) sleep_ms(1);
      return nullptr;
    });
  }
  void open() { open_ = true; }

 private:
  std::atomic<bool> open_{false};
};

void what_uses_one_is_ordered_with_what_uses_another() {
  const Table table(3);
  mx_variable *a = table.variable(), *b = table.variable(), *c = table.variable();
  mx_variable* joint = join(table, {a, b});
  std::atomic<int> ran{0};
  Gate gate(table, {{}, {a}});
  table.push({{b}, {}}, [&](const mx_run_context&) { return ++ran, nullptr; });
  table.push({{}, {joint}}, [&](const mx_run_context&) { return ++ran, nullptr; });
  table.push({{}, {c}}, succeed);
  CHECK(table.wait(c).empty());
  CHECK(table->variable_ready(table.self(), b, 0) == 0 && table->variable_ready(table.self(), joint, 1) == 0);
  sleep_ms(20);
  CHECK(ran == 0);
  gate.open();
  CHECK(table.wait(b, true).empty());
  CHECK(ran == 2);
  for (mx_variable* v : {a, b, c}) table.remove(v);
}

void readers_of_parts_run_together() {
  const Table table(3);
  mx_variable *a = table.variable(), *b = table.variable();
  join(table, {a, b});
  Gate gate(table, {{a}, {}});
  std::atomic<bool> ran{false};
  table.push({{b}, {}}, [&](const mx_run_context&) { return ran = true, nullptr; });
  while (!ran) sleep_ms(1);
  gate.open();
  for (mx_variable* v : {a, b}) table.remove(v);
}

void an_operation_may_list_several_parts() {
  const Table table(2);
  mx_variable *a = table.variable(), *b = table.variable(), *c = table.variable(), *d = table.variable();
  std::vector<mx_variable*> many;
  for (int i = 0; i < 40; ++i) many.push_back(table.variable());
  std::vector<mx_variable*> all = many;
  all.insert(all.end(), {a, b, c});
  join(table, all);
  mx_operation op{};
  op.size = sizeof op;
  op.name = "again";
  op.context = {MX_CPU, 0};
  mx_variable *reads[] = {a, d}, *writes[] = {b, c};
  op.reads = reads;
  op.writes = writes;
  op.n_reads = op.n_writes = 2;
  op.run = [](void*, const mx_run_context*) -> mx_failure* { return nullptr; };
  mx_error error{};
  const uint64_t before = table.version(a);
  CHECK(table->push(table.self(), &op, nullptr, &error) == MX_OK);
  mx_operator* reusable = table->new_operator(table.self(), &op, &error);
  CHECK(table->push_operator(table.self(), reusable, {MX_CPU, 0}, 0, nullptr, &error) == MX_OK);
  table->delete_operator(table.self(), reusable);
  table.push({many, {a}}, succeed);
  CHECK(table.wait(c).empty());
  CHECK(table.version(a) == before + 3 && table.version(many[0]) == before + 3 && table.version(d) == 0);
  // The same one twice is refused as before.
  reads[1] = a;
  CHECK(table->push(table.self(), &op, nullptr, &error) == MX_ERROR_VALUE);
  CHECK(std::strstr(error.message, "twice among the reads") != nullptr);
  for (mx_variable* v : all) table.remove(v);
  table.remove(d);
}

void what_is_in_use_or_failed_is_not_joined() {
  const Table table(2);
  mx_variable *a = table.variable(), *b = table.variable(), *joint = nullptr;
  {
    Gate gate(table, {{a}, {}});
    CHECK(try_join(table, {a, b}, &joint) == MX_TIMEOUT);
    gate.open();
    CHECK(table.wait(a, true).empty());
  }
  table.push({{}, {a}}, [](const mx_run_context&) { return fail("broken"); });
  CHECK(table.wait(a) == "broken");
  CHECK(try_join(table, {a, b}, &joint) == MX_TIMEOUT);  // it never came into being
  table.push({{}, {a}}, succeed);
  CHECK(table.wait(a).empty());
  CHECK(try_join(table, {a, b}, &joint) == MX_OK);
  mx_error error{};
  CHECK(table->join_variables(table.self(), nullptr, 0, &joint, &error) == MX_ERROR_VALUE);
  for (mx_variable* v : {a, b}) table.remove(v);
}

void joining_again_joins_more() {
  const Table table(2);
  mx_variable *a = table.variable(), *b = table.variable(), *c = table.variable(), *d = table.variable();
  table.push({{}, {d}}, succeed);
  table.push({{}, {d}}, succeed);
  CHECK(table.wait_all().empty());
  mx_variable* ab = join(table, {a, b});
  CHECK(join(table, {b, a, a}) == ab && join(table, {ab}) == ab && join(table, {c}) == c);
  mx_variable* cd = join(table, {c, d});
  mx_variable* all = join(table, {b, cd});
  CHECK(all != a && join(table, {a, b, c, d}) == all && join(table, {ab, cd}) == all);
  CHECK(table.version(ab) == 4 && table.version(a) == 4);
  {
    Gate gate(table, {{}, {ab}});
    CHECK(table->variable_ready(table.self(), d, 0) == 0);
    gate.open();
    CHECK(table.wait(cd).empty());
  }
  // Each whole lives as long as one of its parts.
  for (mx_variable* v : {a, b, c}) table.remove(v);
  table.push({{}, {all}}, succeed);
  CHECK(table.wait(d).empty() && table.version(d) == 6);
  // One that is taken in again and again.
  for (int i = 0; i < 300; ++i) {
    mx_variable* more = table.variable();
    CHECK(join(table, {d, more}) == all);
    table.remove(more);
  }
  table.remove(d);
}

void a_failure_is_everybodys_until_it_is_delivered() {
  const Table table(2);
  mx_variable *a = table.variable(), *b = table.variable();
  join(table, {a, b});
  table.push({{}, {a}}, [](const mx_run_context&) { return fail("broken"); });
  table.quiet();
  CHECK(table.failure_of(a) == "broken" && table.failure_of(b) == "broken");
  bool ran = false;
  table.push({{b}, {}}, [&](const mx_run_context&) { return ran = true, nullptr; });
  table.quiet();
  CHECK(!ran);
  CHECK(table.wait(b) == "broken");
  CHECK(table.wait(a).empty());
  // Something was skipped for it: it might have been what was to write this one.
  CHECK(table.failure_of(a) == "broken" && table.failure_of(b) == "broken");
  table.push({{}, {b}}, succeed);
  CHECK(table.wait(a).empty() && table.failure_of(a).empty() && table.failure_of(b).empty());
  table.push({{}, {a}}, [](const mx_run_context&) { return fail("alone"); });
  CHECK(table.wait(b) == "alone");
  CHECK(table.failure_of(a).empty() && table.failure_of(b).empty());
  for (mx_variable* v : {a, b}) table.remove(v);
}

void a_part_ends_after_what_was_pushed_on_the_whole() {
  const Table table(2);
  mx_variable *a = table.variable(), *b = table.variable();
  join(table, {a, b});
  static std::atomic<int> deleted;
  deleted = 0;
  const auto count = [](void*) { ++deleted; };
  Gate gate(table, {{}, {a}});
  table->delete_variable(table.self(), b, {MX_CPU, 0}, count, nullptr);
  std::atomic<bool> ran{false};
  table.push({{}, {a}}, [&](const mx_run_context&) { return ran = true, nullptr; });
  sleep_ms(20);
  CHECK(deleted == 0 && !ran);
  gate.open();
  CHECK(table.wait(a).empty());
  CHECK(ran);
  table.quiet();
  CHECK(deleted == 1);
  table->delete_variable(table.self(), a, {MX_CPU, 0}, count, nullptr);
  CHECK(deleted == 2);  // nothing was pending
}

void a_part_may_end_while_a_thread_waits_for_it() {
  const Table table(2);
  for (int i = 0; i < 200; ++i) {
    mx_variable *a = table.variable(), *b = table.variable();
    join(table, {a, b});
    Gate gate(table, {{}, {a}});
    std::atomic<bool> begun{false};
    std::thread waits([&] {
      begun = true;
      mx_failure* failure = nullptr;
      mx_error error{};
      table->wait_for_variable(table.self(), b, 1, 1'000'000, &failure, &error);
    });
    while (!begun) std::this_thread::yield();
    sleep_ms(i % 3);
    gate.open();
    waits.join();
    table.remove(a);
    table.remove(b);
    table.quiet();
  }
}

void reads_of_a_part() {
  const Table table(2);
  mx_variable *a = table.variable(), *b = table.variable();
  join(table, {a, b});
  Gate gate(table, {{}, {a}});
  static std::atomic<int> reads;
  reads = 0;
  const auto read = [](void*) { ++reads; };
  mx_failure* failure = nullptr;
  mx_error error{};
  const auto read_b = [&](int64_t interval, mx_go_on_fn go_on) {
    return table->read_variable_while(table.self(), b, read, nullptr, interval, go_on, nullptr, &failure, &error);
  };
  CHECK(read_b(0, nullptr) == MX_TIMEOUT);
  gate.open();
  const auto go_on = [](void*) -> int32_t { return 1; };
  CHECK(read_b(1'000'000, go_on) == MX_OK);
  CHECK(reads == 1 && failure == nullptr);
  CHECK(table->wait_for_variable_while(table.self(), a, 1, 1'000'000, go_on, nullptr, &failure, &error) == MX_OK);
  for (mx_variable* v : {a, b}) table.remove(v);
}

void an_operation_does_not_wait_for_its_own_whole() {
  const Table table(2);
  mx_variable *a = table.variable(), *b = table.variable();
  join(table, {a, b});
  table.push({{}, {a}}, [&](const mx_run_context&) -> mx_failure* {
    mx_failure* failure = nullptr;
    mx_error error{};
    CHECK(table->wait_for_variable(table.self(), b, 0, -1, &failure, &error) == MX_ERROR);
    CHECK(std::strstr(error.message, "would wait for itself") != nullptr);
    return nullptr;
  });
  CHECK(table.wait_all().empty());
  for (mx_variable* v : {a, b}) table.remove(v);
}

// Operations of one stream are launched one after another without waiting for each other to be done.
void on_a_device() {
  const FakeDevice device;
  const Table table(2);
  mx_error error{};
  CHECK(table->attach_device(table.self(), device.table(), &error) == MX_OK);
  mx_variable *a = table.variable(), *b = table.variable();
  join(table, {a, b});
  std::vector<int> order;
  const auto enqueue = [&](int i, std::vector<mx_variable*> reads, std::vector<mx_variable*> writes, int lane) {
    How how{std::move(reads), std::move(writes)};
    how.context = device.context();
    how.property = lane == 0 ? MX_FN_NORMAL : MX_FN_COPY_FROM_DEVICE;
    table.push(how, [&order, i](const mx_run_context& run) -> mx_failure* {
      FakeDevice::enqueue(run.stream, [&order, i] { order.push_back(i); });
      return nullptr;
    });
  };
  for (int i = 0; i < 60; i += 3) {
    enqueue(i, {}, {a}, 0);
    enqueue(i + 1, {a}, {b}, 1);
    enqueue(i + 2, {}, {b}, 0);
  }
  mx_variable* joint = nullptr;
  const int32_t status = try_join(table, {a, b}, &joint);
  CHECK(status == MX_OK);  // they are one already, in use or not
  CHECK(table.wait(a, true).empty());
  CHECK(order.size() == 60 && std::is_sorted(order.begin(), order.end()));
  for (mx_variable* v : {a, b}) table.remove(v);
}

// What a stream uses while it keeps order, and notes.
void what_was_noted_is_joined() {
  const FakeDevice device;
  const Table table(2);
  mx_error error{};
  CHECK(table->attach_device(table.self(), device.table(), &error) == MX_OK);
  mx_variable *before = table.variable(), *read = table.variable(), *written = table.variable(),
              *ended = table.variable(), *elsewhere = table.variable(), *given = table.variable(),
              *apart = table.variable(), *beside = table.variable();
  CHECK(join(table, {apart, beside}) != nullptr);  // by somebody else
  const auto use = [&](std::vector<mx_variable*> reads, std::vector<mx_variable*> writes, int lane = 0) {
    How how{std::move(reads), std::move(writes)};
    how.context = device.context();
    how.property = lane == 0 ? MX_FN_NORMAL : MX_FN_COPY_FROM_DEVICE;
    table.push(how, succeed);
  };
  const auto join_noted = [&](mx_variable** joint) {
    return table->join_noted(table.self(), device.context(), &given, 1, &apart, 1, joint, &error);
  };
  use({}, {before});
  CHECK(table->keep_order(table.self(), device.context(), 2, &error) == MX_OK);
  use({read}, {written});
  use({written}, {ended});
  use({}, {apart});
  use({}, {elsewhere}, 1);
  table.remove(ended);
  table.quiet();
  CHECK(table->keep_order(table.self(), device.context(), 0, &error) == MX_OK);
  use({}, {before});
  mx_variable* joint = nullptr;
  {
    Gate gate(table, {{read}, {}});
    CHECK(join_noted(&joint) == MX_TIMEOUT);
    gate.open();
    table.quiet();
  }
  CHECK(join_noted(&joint) == MX_OK);
  const auto is_part = [&](mx_variable* v) { return join(table, {v}) == joint; };
  CHECK(is_part(read) && is_part(written) && is_part(given) && !is_part(before) && !is_part(elsewhere));
  CHECK(!is_part(apart) && !is_part(beside));
  CHECK(join_noted(&joint) == MX_OK && is_part(given));  // nothing is noted any more
  mx_variable* later = table.variable();
  for (int round = 0; round < 2; ++round) {  // notes that nobody takes
    CHECK(table->keep_order(table.self(), device.context(), 2, &error) == MX_OK);
    use({}, {later});
    CHECK(table->keep_order(table.self(), device.context(), 0, &error) == MX_OK);
  }
  for (mx_variable* v : {before, read, written, elsewhere, later}) table.remove(v);
  table.quiet();
  CHECK(join_noted(&joint) == MX_OK && is_part(given));  // `later` has ended
  CHECK(table->join_noted(table.self(), {MX_CPU, 0}, &given, 1, nullptr, 0, &joint, &error) == MX_ERROR_VALUE);
  for (mx_variable* v : {given, apart, beside}) table.remove(v);
}

// Threads end variables while another one joins those that were noted.
void what_was_noted_may_end_meanwhile() {
  const FakeDevice device(MX_FIRST_PLUGIN_DEVICE, 1, 0);
  const Table table(2);
  mx_error error{};
  CHECK(table->attach_device(table.self(), device.table(), &error) == MX_OK);
  mx_variable* given = table.variable();
  static std::atomic<int> deleted;
  deleted = 0;
  for (int round = 0; round < 100; ++round) {
    std::vector<mx_variable*> variables;
    for (int i = 0; i < 20; ++i) variables.push_back(table.variable());
    CHECK(table->keep_order(table.self(), device.context(), 2, &error) == MX_OK);
    How how{{}, variables};
    how.context = device.context();
    table.push(how, succeed);
    table.quiet();
    CHECK(table->keep_order(table.self(), device.context(), 0, &error) == MX_OK);
    std::thread ends([&] {
      for (mx_variable* v : variables) {
        table->delete_variable(table.self(), v, {MX_CPU, 0}, [](void*) { ++deleted; }, nullptr);
      }
    });
    mx_variable* joint = nullptr;
    int32_t status = MX_TIMEOUT;
    while (status == MX_TIMEOUT) {
      status = table->join_noted(table.self(), device.context(), &given, 1, nullptr, 0, &joint, &error);
    }
    CHECK(status == MX_OK);
    ends.join();
    table.push({{}, {joint}}, succeed);
    table.quiet();
  }
  CHECK(deleted == 2000);
  table.remove(given);
}

// With a turn, besides, while another thread joins what it names.
void a_push_meets_a_join() {
  const FakeDevice device(MX_FIRST_PLUGIN_DEVICE, 1, 0);
  const Table table(1);
  mx_error error{};
  CHECK(table->attach_device(table.self(), device.table(), &error) == MX_OK);
  CHECK(table->keep_order(table.self(), device.context(), 1, &error) == MX_OK);
  for (int round = 0; round < 200; ++round) {
    std::vector<mx_variable*> variables;
    for (int i = 0; i < 300; ++i) variables.push_back(table.variable());
    How how{{}, variables};
    how.context = device.context();
    std::atomic<bool> begun{false};
    std::thread joins([&] {
      mx_variable* joint = nullptr;
      begun = true;
      CHECK(try_join(table, variables, &joint) != MX_ERROR_MEMORY);
    });
    while (!begun) std::this_thread::yield();
    for (volatile int i = 0; i < round * 97; i = i + 1) {
    }
    table.push(how, succeed);
    joins.join();
    for (mx_variable* v : variables) table.remove(v);
    table.quiet();
  }
}

// Threads push, wait, and end variables while others join them: writers stay alone.
void threads_push_while_others_join() {
  for (int round = 0; round < 20; ++round) {
    const Table table(3);
    constexpr int kVariables = 12, kThreads = 3;
    std::vector<mx_variable*> variables;
    for (int i = 0; i < kVariables; ++i) variables.push_back(table.variable());
    std::vector<int> users(kVariables), sums(kVariables);
    std::atomic<int> expected[kVariables] = {};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937 random(static_cast<unsigned>(round * kThreads + t));
        for (int i = 0; i < 400; ++i) {
          std::vector<int> some;
          for (int v = 0; v < kVariables; ++v) {
            if (random() % 4 == 0) some.push_back(v);
          }
          if (i % 16 == 0) {
            std::vector<mx_variable*> parts;
            for (const int v : some) parts.push_back(variables[v]);
            mx_variable* joint = nullptr;
            if (!parts.empty()) CHECK(try_join(table, parts, &joint) != MX_ERROR);
          } else if (i % 7 == 0 && !some.empty()) {
            table.wait(variables[some[0]], i % 2 == 0);
          } else {
            How how;
            how.flags = i % 3 == 0 ? MX_PUSH_INLINE : 0;
            for (const int v : some) {
              how.writes.push_back(variables[v]);
              ++expected[v];
            }
            table.push(how, [&users, &sums, some](const mx_run_context&) -> mx_failure* {
              for (const int v : some) CHECK(users[v]++ == 0);
              for (const int v : some) ++sums[v];
              for (const int v : some) --users[v];
              return nullptr;
            });
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(table.wait_all().empty());
    for (int v = 0; v < kVariables; ++v) CHECK(sums[v] == expected[v]);
    mx_variable* all = join(table, variables);
    const uint64_t version = table.version(all);
    for (mx_variable* v : variables) CHECK(table.version(v) == version);
    for (mx_variable* v : variables) table.remove(v);
  }
}

}  // namespace

int main() {
  return run({
      {"what uses one is ordered with what uses another", &what_uses_one_is_ordered_with_what_uses_another},
      {"readers of parts run together", &readers_of_parts_run_together},
      {"an operation may list several parts", &an_operation_may_list_several_parts},
      {"what is in use or failed is not joined", &what_is_in_use_or_failed_is_not_joined},
      {"joining again joins more", &joining_again_joins_more},
      {"a failure is everybody's until it is delivered", &a_failure_is_everybodys_until_it_is_delivered},
      {"a part ends after what was pushed on the whole", &a_part_ends_after_what_was_pushed_on_the_whole},
      {"a part may end while a thread waits for it", &a_part_may_end_while_a_thread_waits_for_it},
      {"reads of a part", &reads_of_a_part},
      {"an operation does not wait for its own whole", &an_operation_does_not_wait_for_its_own_whole},
      {"on a device", &on_a_device},
      {"what was noted is joined", &what_was_noted_is_joined},
      {"what was noted may end meanwhile", &what_was_noted_may_end_meanwhile},
      {"a push meets a join", &a_push_meets_a_join},
      {"threads push while others join", &threads_push_while_others_join},
  });
}
