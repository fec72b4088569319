// SPDX-License-Identifier: Apache-2.0
//
// The recorder: what threads tell it at the same time, attaching while work is under way, limits.
#include "recorder.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <string>
#include <thread>

#include "support.hpp"

using namespace test;
using mx::engine::Recorder;

namespace {

mx_failure* succeed(const mx_run_context&) { return nullptr; }

void events_of_many_threads() {
  const Table table(7);
  Recorder recorder(1'000'000);
  recorder.attach(table.operator->());
  for (int i = 0; i < 5000; ++i) table.push({}, succeed);
  table.quiet();
  recorder.detach();
  table.push({}, succeed);
  table.quiet();
  const auto events = recorder.events();
  CHECK(events.size() == 5000);
  for (size_t i = 1; i < events.size(); ++i) CHECK(events[i - 1].started <= events[i].started);
  CHECK(recorder.dropped() == 0);
  recorder.clear();
  CHECK(recorder.events().empty());
}

void it_comes_and_goes_while_others_work() {
  const Table table(3);
  std::atomic<bool> end{false};
  std::thread pusher([&] {
    while (!end) {
      for (int i = 0; i < 100; ++i) table.push({}, succeed);
      table.quiet();
    }
  });
  size_t seen = 0;
  for (int i = 0; i < 200; ++i) {
    Recorder recorder(64);
    recorder.attach(table.operator->());
    std::this_thread::yield();
    recorder.events();
    recorder.clear();
    sleep_ms(i % 3 == 0 ? 1 : 0);
    recorder.detach();
    const size_t kept = recorder.events().size();
    CHECK(kept <= 64);
    seen += kept;
  }
  end = true;
  pusher.join();
  CHECK(seen > 0);
}

void it_keeps_the_engine() {
  Recorder recorder(8);
  {
    const Table table(1);
    recorder.attach(table.operator->());
    table.push({}, succeed);
    table.quiet();
  }
  CHECK(recorder.attached());
  recorder.detach();
  CHECK(recorder.events().size() == 1);
}

void what_does_not_fit_is_counted() {
  const Table table(2);
  Recorder recorder(10);
  recorder.attach(table.operator->());
  for (int i = 0; i < 25; ++i) table.push({}, succeed);
  table.quiet();
  CHECK(recorder.events().size() == 10 && recorder.dropped() == 15);
  recorder.clear();
  CHECK(recorder.dropped() == 0);
  table.push({}, succeed);
  table.quiet();
  CHECK(recorder.events().size() == 1);
  recorder.detach();
}

void parts_of_operations_are_told_while_somebody_listens() {
  const Table table(2);
  std::atomic<int> told{0}, untold{0};
  const auto body = [&](const mx_run_context& run) -> mx_failure* {
    if (run.report == nullptr) {
      ++untold;
      return nullptr;
    }
    mx_engine_event part{};
    part.size = sizeof part;
    part.name = "Convolution";
    part.label = "conv0";
    part.pushed = part.started = 10;
    part.finished = 20;
    run.report(run.reporter, &part);
    part.size = offsetof(mx_engine_event, label);  // of a caller built before there were labels
    run.report(run.reporter, &part);
    ++told;
    return nullptr;
  };
  table.push({}, body);
  table.quiet();
  Recorder recorder(100);
  recorder.attach(table.operator->());
  for (int i = 0; i < 3; ++i) table.push({}, body);
  table.quiet();
  recorder.detach();
  table.push({}, body);
  table.quiet();
  CHECK(told == 3 && untold == 2);
  int labelled = 0, plain = 0;
  for (const mx_engine_event& event : recorder.events()) {
    if (event.started != 10) continue;
    CHECK(event.thread != 0 && std::string(event.name) == "Convolution");
    (event.label == nullptr ? plain : labelled) += 1;
  }
  CHECK(labelled == 3 && plain == 3);
}

// A sink may hold its lock, and the engine's, while another thread forks.
void a_child_is_not_told_to_a_sink_that_was_busy() {
  const Table table(2);
  static std::atomic<bool> inside, open;
  inside = open = false;
  table->set_sink(
      table.self(),
      [](void*, const mx_engine_event*) {
        inside = true;
        while (!open) sleep_ms(1);
      },
      nullptr);
  table.push({}, succeed);
  while (!inside) sleep_ms(1);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    table->set_sink(table.self(), nullptr, nullptr);  // would wait for the busy sink for ever
    _exit(0);
  }
  open = true;
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  table.quiet();
  table->set_sink(table.self(), nullptr, nullptr);
}

}  // namespace

int main() {
  return run({
      {"events of many threads", events_of_many_threads},
      {"comes and goes", it_comes_and_goes_while_others_work},
      {"keeps the engine", it_keeps_the_engine},
      {"what does not fit", what_does_not_fit_is_counted},
      {"parts", parts_of_operations_are_told_while_somebody_listens},
      {"a forked child", a_child_is_not_told_to_a_sink_that_was_busy},
  });
}
