// SPDX-License-Identifier: Apache-2.0
//
// Threads that read a variable's memory themselves, beside those that push.
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "support.hpp"

namespace {

using namespace test;

int32_t go_on(void*) { return 1; }

// What a thread reads; it may be held inside.
struct Reader {
  const Table& table;
  mx_variable* variable;
  std::function<void()> body;
  mx_failure* failure = nullptr;
  mx_error error{};

  int32_t read(mx_go_on_fn asked = go_on, void* argument = nullptr) {
    return table->read_variable_while(
        table.self(), variable, [](void* self) { static_cast<Reader*>(self)->body(); }, this, 1'000'000, asked,
        argument, &failure, &error);
  }
};

// A write that ends when it is told.
Body held(std::atomic<bool>& until) {
  return [&until](const mx_run_context&) -> mx_failure* {
    while (!until) sleep_ms(1);
    return nullptr;
  };
}

// Who ends an operation grants those behind it, frees what died with it, and only then says that they were granted. A
// thread that only looks may hold what freeing needs, such as the lock of an interpreter.
void who_only_looks_waits_for_nobody() {
  struct Freeing {
    std::atomic<int> looks{0}, freed{0};
    std::atomic<bool> late{false};
    static void run(void* argument) {
      auto* self = static_cast<Freeing*>(argument);
      const int before = self->looks;
      for (int i = 0; i < 5'000 && self->looks < before + 2; ++i) sleep_ms(1);
      if (self->looks < before + 2) self->late = true;
      ++self->freed;
    }
  };
  const Table table(2);
  Freeing freeing;
  for (int round = 1; round <= 100 && !freeing.late; ++round) {
    std::atomic<bool> open{false};
    mx_variable* dying[] = {table.variable(), nullptr};
    mx_variable* v = table.variable();
    dying[1] = table.variable();
    table.push({{dying[0], dying[1]}, {v}}, held(open));
    for (mx_variable* each : dying) table->delete_variable(table.self(), each, {MX_CPU, 0}, &Freeing::run, &freeing);
    open = true;
    while (freeing.freed < 2 * round) {
      mx_failure* failure = nullptr;
      mx_error error{};
      const int32_t status = table->wait_for_variable(table.self(), v, 0, 0, &failure, &error);
      CHECK((status == MX_OK || status == MX_TIMEOUT) && failure == nullptr);
      ++freeing.looks;
    }
    table.quiet();
    table.remove(v);
  }
  CHECK(!freeing.late);
}

void a_read_is_of_its_moment() {
  for (const int n : kWorkerCounts) {
    const Table table(n);
    mx_variable* v = table.variable();
    std::atomic<bool> open{false}, ended{false};
    int written = 0, seen = -1;
    table.push({{}, {v}}, held(open));
    Reader reader{table, v, [&] { seen = written; }};
    std::atomic<bool> waits{false};
    std::thread other([&] {
      const auto told = [](void* argument) -> int32_t {
        *static_cast<std::atomic<bool>*>(argument) = true;
        return 1;
      };
      CHECK(reader.read(told, &waits) == MX_OK && reader.failure == nullptr);
      ended = true;
    });
    while (!waits) sleep_ms(1);  // the read has its place
    for (int i = 0; i < 500; ++i) {
      table.push({{}, {v}}, [&](const mx_run_context&) -> mx_failure* {
        ++written;
        return nullptr;
      });
    }
    CHECK(!ended);
    open = true;
    other.join();
    CHECK(seen == 0);
    table.quiet();
    CHECK(written == 500);
    table.remove(v);
  }
}

void writes_wait_until_a_read_has_ended() {
  const Table table(2);
  mx_variable* v = table.variable();
  std::atomic<bool> inside{false}, leave{false}, written{false};
  Reader reader{table, v, [&] {
                  inside = true;
                  while (!leave) sleep_ms(1);
                  CHECK(!written);
                }};
  std::thread other([&] { CHECK(reader.read(nullptr) == MX_OK); });
  while (!inside) sleep_ms(1);
  table.push({{}, {v}}, [&](const mx_run_context&) -> mx_failure* {
    written = true;
    return nullptr;
  });
  bool read_too = false;
  Reader second{table, v, [&] { read_too = true; }};
  CHECK(second.read(nullptr) == MX_TIMEOUT && !read_too);  // it would wait for the write
  mx_error error{};
  CHECK(table->wait_for_all(table.self(), 20'000'000, nullptr, &error) == MX_TIMEOUT);
  table.remove(v);  // after everybody
  leave = true;
  other.join();
  table.quiet();
  CHECK(written);
}

void a_failure_is_told_instead() {
  for (const bool busy : {false, true}) {
    const Table table(2);
    mx_variable* v = table.variable();
    std::atomic<bool> open{!busy};
    table.push({{}, {v}}, [&](const mx_run_context&) -> mx_failure* {
      while (!open) sleep_ms(1);
      return fail("told");
    });
    if (!busy) table.quiet();
    int times = 0;
    Reader reader{table, v, [&] { ++times; }};
    std::thread other([&] {
      if (busy) sleep_ms(5);
      open = true;
    });
    CHECK(reader.read() == MX_OK && times == 0);
    other.join();
    CHECK(reader.failure != nullptr && std::strcmp(reader.failure->message, "told") == 0);
    reader.failure->release(reader.failure);
    CHECK(reader.read() == MX_OK && times == 1 && reader.failure == nullptr);
    CHECK(table.failure_of(v) == "told");
    table.remove(v);
  }
}

void a_read_that_is_given_up_leaves_no_trace() {
  const Table table(2);
  mx_variable* v = table.variable();
  for (int i = 0; i < 300; ++i) {
    std::atomic<bool> open{false};
    table.push({{}, {v}}, held(open));
    int asked = 0;
    struct Asked {
      int& times;
      std::atomic<bool>& open;
    } given{asked, open};
    int read = 0;
    Reader reader{table, v, [&] { ++read; }};
    const int32_t status = reader.read(
        [](void* argument) -> int32_t {
          auto* self = static_cast<Asked*>(argument);
          if (++self->times < 2) return 1;
          self->open = true;  // it may be granted in this moment
          return 0;
        },
        &given);
    CHECK(status == MX_TIMEOUT && read == 0 && asked == 2);
    open = true;
    CHECK(table.wait(v, true).empty());
  }
  table.remove(v);
}

// A handler of a signal may write what the thread waits to read, and wait for that.
void what_is_asked_meanwhile_may_wait_for_a_write() {
  for (const int n : kWorkerCounts) {
    const Table table(n);
    mx_variable* v = table.variable();
    for (int i = 0; i < 30; ++i) {
      std::atomic<bool> open{false};
      std::atomic<int> written{0};
      table.push({{}, {v}}, held(open));
      struct Handler {
        const Table& table;
        mx_variable* variable;
        std::atomic<bool>& open;
        std::atomic<int>& written;
      } handler{table, v, open, written};
      int seen = -1;
      Reader reader{table, v, [&] { seen = written; }};
      const int32_t status = reader.read(
          [](void* argument) -> int32_t {
            auto* self = static_cast<Handler*>(argument);
            if (self->open) return 1;
            self->table.push({{}, {self->variable}}, [self](const mx_run_context&) -> mx_failure* {
              ++self->written;
              return nullptr;
            });
            self->open = true;
            CHECK(self->table.wait(self->variable, true).empty());
            return 1;
          },
          &handler);
      CHECK(status == MX_OK && seen == 1 && reader.failure == nullptr);
    }
    table.remove(v);
  }
}

// Nor does its read count as pending: it may wait for everything.
void what_is_asked_meanwhile_may_wait_for_everything() {
  for (const int n : kWorkerCounts) {
    const Table table(n);
    mx_variable* v = table.variable();
    std::atomic<bool> open{false};
    table.push({{}, {v}}, held(open));
    struct Handler {
      const Table& table;
      std::atomic<bool>& open;
      int asked;
    } handler{table, open, 0};
    bool read = false;
    Reader reader{table, v, [&] { read = true; }};
    const int32_t status = reader.read(
        [](void* argument) -> int32_t {
          auto* self = static_cast<Handler*>(argument);
          if (self->asked++ == 0) {
            self->open = true;
            self->table.quiet();
          }
          return 1;
        },
        &handler);
    CHECK(status == MX_OK && read && reader.failure == nullptr && handler.asked == 1);
    CHECK(table->pending(table.self()) == 0);
    table.remove(v);
  }
}

void an_operation_does_not_wait_for_itself() {
  const Table table(1);
  mx_variable* v = table.variable();
  std::string text;
  table.push({{}, {v}}, [&](const mx_run_context&) -> mx_failure* {
    Reader reader{table, v, [] {}};
    CHECK(reader.read() == MX_ERROR);
    text = reader.error.message;
    return nullptr;
  });
  CHECK(table.wait(v).empty());
  CHECK(text.find("it would wait for itself") != std::string::npos);
  table.remove(v);
}

void no_read_after_the_shut_down() {
  const Table table(1);
  mx_variable* v = table.variable();
  table->notify_shutdown(table.self());
  int times = 0;
  Reader reader{table, v, [&] { ++times; }};
  CHECK(reader.read() == MX_ERROR_SHUTDOWN && times == 0);
  table.remove(v);
}

// Every read sees a write whole, under threads that read, write and end the variable.
void reads_are_whole() {
  for (const bool naive : {false, true}) {
    const Table table(2, naive);
    mx_variable* v = table.variable();
    int64_t halves[2] = {0, 0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        int64_t newest = 0;
        for (int i = 0; i < 300; ++i) {
          if (t < 2) {
            table.push({{}, {v}}, [&](const mx_run_context&) -> mx_failure* {
              ++halves[0];
              ++halves[1];
              return nullptr;
            });
          } else {
            Reader reader{table, v, [&] {
                            CHECK(halves[0] == halves[1] && halves[0] >= newest);
                            newest = halves[0];
                          }};
            CHECK(reader.read() == MX_OK);
          }
        }
      });
    }
    for (auto& thread : threads) thread.join();
    CHECK(table.wait(v).empty());
    CHECK(halves[0] == 600);
    table.remove(v);
  }
}

// Somebody who waits for everything is not kept waiting by threads that read again and again.
void readers_let_others_wait_for_everything() {
  for (const bool naive : {false, true}) {
    const Table table(2, naive);
    mx_variable* v = table.variable();
    std::atomic<bool> end{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        while (!end) {
          Reader reader{table, v, [] { sleep_ms(2); }};
          CHECK(reader.read() == MX_OK);
        }
      });
    }
    sleep_ms(50);
    for (int i = 0; i < 5; ++i) table.quiet();
    end = true;
    for (auto& thread : threads) thread.join();
    table.remove(v);
  }
}

}  // namespace

int main() {
  return run({
      {"a look", who_only_looks_waits_for_nobody},
      {"the moment of the call", a_read_is_of_its_moment},
      {"writes wait", writes_wait_until_a_read_has_ended},
      {"failures", a_failure_is_told_instead},
      {"given up", a_read_that_is_given_up_leaves_no_trace},
      {"handlers of signals", what_is_asked_meanwhile_may_wait_for_a_write},
      {"handlers that wait", what_is_asked_meanwhile_may_wait_for_everything},
      {"inside an operation", an_operation_does_not_wait_for_itself},
      {"shut-down", no_read_after_the_shut_down},
      {"reads are whole", reads_are_whole},
      {"waits for everything", readers_let_others_wait_for_everything},
  });
}
