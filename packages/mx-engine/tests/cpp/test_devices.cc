// SPDX-License-Identifier: Apache-2.0
//
// Two-step completion on a fake accelerator: launched when the body has returned, done when the
// token after it is reached.
#include <cstring>

#include "fake_device.hpp"
#include "support.hpp"

using namespace test;

namespace {

// A point that a stream does not pass until it is opened.
class Gate {
 public:
  void open() {
    const std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

How on(const FakeDevice& device, std::vector<mx_variable*> reads, std::vector<mx_variable*> writes,
       int id = 0, int32_t property = MX_FN_NORMAL) {
  How how{std::move(reads), std::move(writes)};
  how.context = device.context(id);
  how.property = property;
  how.name = "on device";
  return how;
}

// Pushes what enqueues `work` on its stream.
void enqueue(const Table& table, const How& how, std::function<void()> work) {
  table.push(how, [work = std::move(work)](const mx_run_context& run) -> mx_failure* {
    FakeDevice::enqueue(run.stream, work);
    return nullptr;
  });
}

bool ready(const Table& table, mx_variable* v, bool for_write = false) {
  return table->variable_ready(table.self(), v, for_write) == 1;
}

void attach(const Table& table, const FakeDevice& device) {
  mx_error error{};
  CHECK(table->attach_device(table.self(), device.table(), &error) == MX_OK);
}

void devices_are_attached_once() {
  FakeDevice device, twin, host(MX_CPU), pinned(MX_CPU_PINNED);
  const Table table(2);
  mx_error error{};
  mx_variable* v = table.variable();
  const auto nothing = [](const mx_run_context&) -> mx_failure* { std::abort(); };
  CHECK(table.try_push(on(device, {}, {v}), nothing, nullptr, &error) == MX_ERROR_VALUE);
  CHECK(std::strstr(error.message, "no device of type 64 is attached") != nullptr);
  for (const FakeDevice* refused : {&host, &pinned}) {
    CHECK(table->attach_device(table.self(), refused->table(), &error) == MX_ERROR_VALUE);
  }
  attach(table, device);
  attach(table, device);  // again: nothing happens
  CHECK(table->attach_device(table.self(), twin.table(), &error) == MX_ERROR_VALUE);
  mx_device_api forged = *device.table();
  forged.head.major = 99;
  CHECK(table->attach_device(table.self(), &forged, &error) == MX_ERROR_ABI);
  CHECK(table.try_push(on(device, {}, {v}, 7), nothing, nullptr, &error) == MX_ERROR_VALUE);
  CHECK(std::strstr(error.message, "expected one of 2 devices") != nullptr);
  CHECK(table->pending(table.self()) == 0 && ready(table, v, true));
  table.remove(v);
}

void launched_is_not_done() {
  FakeDevice device;
  const Table table(2);
  attach(table, device);
  mx_variable* v = table.variable();
  mx_variable* w = table.variable();
  Gate gate;
  int value = 0;
  std::atomic<bool> destroyed{false};
  std::atomic<int> launches{0};
  const auto alive = std::shared_ptr<void>(nullptr, [&](void*) { destroyed = true; });
  table.push(on(device, {}, {v}), [&, alive](const mx_run_context& run) -> mx_failure* {
    CHECK(run.stream != nullptr && run.context.type == device.context().type);
    ++launches;
    FakeDevice::enqueue(run.stream, [&] {
      gate.pass();
      value = 1;
    });
    return nullptr;
  });
  CHECK(launches == 1);  // inline, on this thread
  enqueue(table, on(device, {v}, {w}), [&] {
    CHECK(value == 1);
    value = 2;
  });
  CHECK(!ready(table, v) && !ready(table, w) && table.version(v) == 0);
  CHECK(table->pending(table.self()) == 2);
  mx_error error{};
  CHECK(table->wait_for_variable(table.self(), v, 0, 1'000'000, nullptr, &error) == MX_TIMEOUT);
  std::atomic<int> seen{-1};
  table.push({{w}, {}}, [&](const mx_run_context&) -> mx_failure* {
    seen = value;
    return nullptr;
  });
  sleep_ms(5);
  CHECK(seen == -1 && device.stream_waits == 0);  // one stream orders by itself
  gate.open();
  CHECK(table.wait(w, true).empty());
  CHECK(seen == 2 && table.version(v) == 1 && table.version(w) == 1);
  table.quiet();
  CHECK(device.tokens == 0);
  table.remove(v);
  table.remove(w);
}

void streams_wait_for_each_other() {
  FakeDevice device, other(MX_FIRST_PLUGIN_DEVICE + 1);
  const Table table(2);
  attach(table, device);
  attach(table, other);
  mx_variable* v = table.variable();
  Gate gate;
  std::vector<int> order;
  enqueue(table, on(device, {}, {v}, 0, MX_FN_COPY_TO_DEVICE), [&] {
    gate.pass();
    order.push_back(1);
  });
  std::atomic<bool> launched{false};
  table.push(on(device, {}, {v}, 1), [&](const mx_run_context& run) -> mx_failure* {
    launched = true;
    FakeDevice::enqueue(run.stream, [&] { order.push_back(2); });
    return nullptr;
  });
  while (!launched) sleep_ms(1);  // before the other stream has done anything
  CHECK(device.stream_waits == 1);
  // Another kind of device knows nothing of these tokens: it is launched when all is done.
  std::atomic<bool> foreign{false};
  table.push(on(other, {v}, {}), [&](const mx_run_context&) -> mx_failure* {
    foreign = true;
    CHECK(order.size() == 2);
    return nullptr;
  });
  sleep_ms(5);
  CHECK(!foreign);
  gate.open();
  table.quiet();
  CHECK(foreign && (order == std::vector<int>{1, 2}) && other.stream_waits == 0);
  table.remove(v);
}

void a_writer_comes_behind_readers_of_other_streams() {
  FakeDevice device;
  const Table table(2);
  attach(table, device);
  mx_variable* v = table.variable();
  Gate gate;
  std::atomic<int> reads{0}, at_write{-1};
  for (int id = 0; id < 2; ++id) {
    for (const int32_t lane : {MX_FN_NORMAL, MX_FN_COPY_FROM_DEVICE}) {
      enqueue(table, on(device, {v}, {}, id, lane), [&] {
        gate.pass();
        ++reads;
      });
    }
  }
  CHECK(ready(table, v) && !ready(table, v, true));
  enqueue(table, on(device, {}, {v}), [&] { at_write = reads.load(); });
  gate.open();
  CHECK(table.wait(v).empty());
  CHECK(at_write == 4);
  table.quiet();
  table.remove(v);
}

void deletions_are_done_when_the_device_is() {
  FakeDevice device;
  const Table table(2);
  attach(table, device);
  mx_variable* v = table.variable();
  Gate gate;
  static std::atomic<int> deleted;
  deleted = 0;
  enqueue(table, on(device, {v}, {}), [&] { gate.pass(); });
  table->delete_variable(table.self(), v, device.context(), [](void*) { ++deleted; }, nullptr);
  sleep_ms(5);
  CHECK(deleted == 0);
  gate.open();
  table.quiet();
  CHECK(deleted == 1);
}

void failures_of_bodies_and_tokens() {
  FakeDevice device;
  const Table table(2);
  attach(table, device);
  mx_variable* v[4];
  for (auto& each : v) each = table.variable();
  std::atomic<int> ran{0};
  // Fails when launched: what depends on it is not launched at all.
  table.push(on(device, {}, {v[0]}),
             [](const mx_run_context&) -> mx_failure* { return fail("not launched"); });
  enqueue(table, on(device, {v[0]}, {v[1]}, 1), [&] { ++ran; });
  CHECK(table.wait(v[1]) == "not launched");
  CHECK(table.wait(v[0]).empty() && ran == 0 && table.failure_of(v[0]) == "not launched");
  // Fails on the device: what was launched after it fails with it, on the host it is skipped.
  Gate gate;
  table.push(on(device, {}, {v[0]}), [&](const mx_run_context& run) -> mx_failure* {
    FakeDevice::enqueue(run.stream, [&] { gate.pass(); });
    FakeDevice::fail_next_token("lost on the way");
    return nullptr;
  });
  enqueue(table, on(device, {v[0]}, {v[1]}, 1), [] {});
  enqueue(table, on(device, {}, {v[3]}, 1), [] {});
  table.push({{v[1]}, {v[2]}}, [](const mx_run_context&) -> mx_failure* { std::abort(); });
  CHECK(table.failure_of(v[0]) == "not launched");
  gate.open();
  CHECK(table.wait(v[2]) == "lost on the way" && table.wait(v[3]).empty());
  CHECK(table.failure_of(v[0]) == "lost on the way");
  CHECK(table.failure_of(v[1]) == "lost on the way");
  // No token at all.
  device.records_fail = 1;
  enqueue(table, on(device, {}, {v[0]}), [] {});
  CHECK(table.wait(v[0]) == "the device records nothing more");
  CHECK(table.wait_all().empty() && device.tokens == 0);
  for (auto* each : v) table.remove(each);
}

// What comes after an operation without a token comes after everything that it came after.
void what_leaves_no_token_waits_for_all_before_it() {
  for (const int last : {0, 1}) {
    FakeDevice device;
    const Table table(2);
    attach(table, device);
    mx_variable* v[] = {table.variable(), table.variable()};
    Gate gates[2];
    std::atomic<int> done{0}, seen{-1};
    const int32_t lanes[] = {MX_FN_COPY_TO_DEVICE, MX_FN_COPY_FROM_DEVICE};
    for (int i = 0; i < 2; ++i) {
      table.push(on(device, {}, {v[i]}, 0, lanes[i]), [&, i](const mx_run_context& run) -> mx_failure* {
        FakeDevice::enqueue(run.stream, [&, i] {
          gates[i].pass();
          ++done;
        });
        return nullptr;
      });
    }
    while (device.tokens < 2) sleep_ms(1);
    device.records_fail = 1;
    std::thread opener([&] {
      gates[1 - last].open();
      sleep_ms(20);
      gates[last].open();
    });
    enqueue(table, on(device, {}, {v[0], v[1]}, 1), [] {});
    enqueue(table, on(device, {}, {v[0], v[1]}, 0, MX_FN_NO_SKIP), [&] { seen = done.load(); });
    table.quiet();
    opener.join();
    CHECK(seen == 2 && device.records_fail <= 0);
    for (auto* each : v) table.remove(each);
  }
}

void asynchronous_operations_are_launched_when_completed() {
  FakeDevice device;
  const Table table(2);
  attach(table, device);
  mx_variable* v = table.variable();
  mx_completion* pending = nullptr;
  std::atomic<bool> begun{false};
  table.push_async(on(device, {}, {v}), [&](const mx_run_context&, mx_completion* done) {
    pending = done;
    begun = true;
  });
  while (!begun) sleep_ms(1);
  std::atomic<bool> launched{false};
  table.push(on(device, {}, {v}), [&](const mx_run_context&) -> mx_failure* {
    launched = true;
    return nullptr;
  });
  sleep_ms(5);
  CHECK(!launched);
  table.complete(pending);
  CHECK(table.wait(v).empty() && launched && table.version(v) == 2);
  table.remove(v);
}

void a_naive_engine_waits_at_once() {
  FakeDevice device;
  const Table table(1, true);
  attach(table, device);
  mx_variable* v = table.variable();
  std::atomic<bool> done{false};
  enqueue(table, on(device, {}, {v}), [&] {
    sleep_ms(2);
    done = true;
  });
  CHECK(done && ready(table, v, true) && device.tokens == 0);
  mx_failure* failure = nullptr;
  mx_error error{};
  const auto body = [](const mx_run_context&) -> mx_failure* {
    FakeDevice::fail_next_token("late");
    return nullptr;
  };
  CHECK(table.try_push(on(device, {}, {v}), body, &failure, &error) == MX_OK);
  const FailureRef owned(failure);
  CHECK(failure != nullptr && std::strcmp(failure->message, "late") == 0);
  table.remove(v);
}

void profiles_tell_when_the_device_was_done() {
  FakeDevice device;
  const Table table(2);
  attach(table, device);
  mx_variable* v = table.variable();
  static std::atomic<int64_t> started, finished, overlaps;
  static std::atomic<uint32_t> thread;
  finished = overlaps = 0;
  table->set_sink(
      table.self(),
      [](void*, const mx_engine_event* event) {
        if (event->started < finished) ++overlaps;
        started = event->started;
        finished = event->finished;
        thread = event->thread;
      },
      nullptr);
  enqueue(table, on(device, {}, {v}), [] { sleep_ms(20); });
  table.quiet();
  CHECK(finished - started >= 15'000'000);
  const uint32_t first = thread;
  for (int i = 0; i < 5; ++i) enqueue(table, on(device, {}, {v}), [] { sleep_ms(2); });
  table.quiet();
  CHECK(overlaps == 0 && thread == first);  // a row of its own for the stream
  table->set_sink(table.self(), nullptr, nullptr);
  table.remove(v);
}

void stops_and_ends_in_flight() {
  FakeDevice device(MX_FIRST_PLUGIN_DEVICE, 2, 20);
  for (int round = 0; round < 200; ++round) {
    const Table table(2);
    attach(table, device);
    mx_variable* v = table.variable();
    std::atomic<int> ran{0};
    for (int i = 0; i < 10; ++i) {
      const int32_t lane = i % 3 == 0 ? MX_FN_COPY_TO_DEVICE : MX_FN_NORMAL;
      enqueue(table, on(device, {}, {v}, i % 2, lane), [&] { ++ran; });
      if (i % 4 == 3) table->stop(table.self());
    }
    table.remove(v);
    table->stop(table.self());
    CHECK(ran == 10 && device.tokens == 0);
  }
  // Shut down in flight: what is being watched still completes.
  const Table table(2);
  attach(table, device);
  Gate gate;
  mx_variable* v = table.variable();
  const int waits = device.host_waits;
  enqueue(table, on(device, {}, {v}), [&] { gate.pass(); });
  while (device.host_waits == waits) sleep_ms(1);  // what nobody watches yet never completes
  table->notify_shutdown(table.self());
  mx_error error{};
  CHECK(table->wait_for_all(table.self(), 1'000'000, nullptr, &error) == MX_TIMEOUT);
  gate.open();
  table.quiet();
  table.remove(v);
}

void threads_launch_on_the_same_streams() {
  FakeDevice device(MX_FIRST_PLUGIN_DEVICE, 2, 0);
  const Table table(2);
  attach(table, device);
  constexpr int kVariables = 5, kThreads = 4, kPushes = 400;
  mx_variable* v[kVariables];
  long sums[kVariables] = {};
  for (auto& each : v) each = table.variable();
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kPushes; ++i) {
        const int a = (i + t) % kVariables, b = (i * 3 + 2 * t + 1) % kVariables;
        std::vector<mx_variable*> writes{v[a]};
        if (b != a) writes.push_back(v[b]);
        const auto add = [&sums, a, b] {
          ++sums[a];
          if (a != b) ++sums[b];
        };
        if (i % 3 == 0) {
          table.push({{}, writes}, [add](const mx_run_context&) -> mx_failure* {
            add();
            return nullptr;
          });
        } else {
          enqueue(table, on(device, {}, writes, i % 2), add);
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  table.quiet();
  long total = 0;
  uint64_t versions = 0;
  for (int i = 0; i < kVariables; ++i) {
    total += sums[i];
    versions += table.version(v[i]);
    table.remove(v[i]);
  }
  CHECK(static_cast<uint64_t>(total) == versions && total >= kThreads * kPushes);
}

int32_t keep_order(const Table& table, const FakeDevice& device, bool on, int id = 0) {
  return table->keep_order(table.self(), device.context(id), on ? 1 : 0, nullptr);
}

// Operations that share nothing, the first of which waits for the host.
void launches_keep_the_order_of_pushes() {
  FakeDevice device;
  const Table table(2);
  attach(table, device);
  mx_variable* v = table.variable();
  mx_variable* w = table.variable();
  mx_variable* x = table.variable();
  std::mutex mutex;
  std::string launched;
  const auto launch = [&](char name, const char* failure = nullptr) {
    return [&, name, failure](const mx_run_context&) -> mx_failure* {
      const std::lock_guard<std::mutex> lock(mutex);
      launched += name;
      return failure == nullptr ? nullptr : mx::make_failure(MX_ERROR, failure);
    };
  };
  for (const bool ordered : {false, true, false}) {
    CHECK(keep_order(table, device, ordered) == MX_OK);
    Gate gate;
    table.push({{}, {v}}, [&](const mx_run_context&) -> mx_failure* {
      gate.pass();
      return nullptr;
    });
    table.push(on(device, {}, {v}), launch('a'));
    table.push(on(device, {}, {w}), launch('b'));
    table.push(on(device, {}, {x}, 1), launch('c'));  // another device keeps no order
    gate.open();
    table.quiet();
    CHECK(launched == (ordered ? "cab" : "bca"));
    launched.clear();
  }
  CHECK(keep_order(table, device, true) == MX_OK);
  table.push(on(device, {}, {v}), launch('a', "no"));
  table.push(on(device, {}, {w}), launch('b'));  // is not what failed
  mx_operation repeated{};
  repeated.size = sizeof repeated;
  repeated.writes = &x;
  repeated.n_writes = 1;
  repeated.argument = &launched;
  repeated.run = [](void* argument, const mx_run_context*) -> mx_failure* {
    *static_cast<std::string*>(argument) += 'c';
    return nullptr;
  };
  mx_operator* again = table->new_operator(table.self(), &repeated, nullptr);
  CHECK(table->push_operator(table.self(), again, device.context(), 0, nullptr, nullptr) == MX_OK);
  CHECK(table.wait(x, true).empty() && table.wait(w, true).empty() && launched == "abc");
  CHECK(table.wait(v, true) == "no");
  table->delete_operator(table.self(), again);
  CHECK(keep_order(table, device, false, 7) == MX_ERROR_VALUE);
  CHECK(table->keep_order(table.self(), {MX_CPU, 0}, 1, nullptr) == MX_ERROR_VALUE);
  for (mx_variable* each : {v, w, x}) table.remove(each);
}

// One that waits inside of an operation of Python for another that it pushed, while a third one waits for it.
void what_an_operation_pushes_takes_no_turn() {
  FakeDevice device;
  const Table table(2);
  attach(table, device);
  mx_variable* v = table.variable();
  mx_variable* w = table.variable();
  CHECK(keep_order(table, device, true) == MX_OK);
  const auto nothing = [](const mx_run_context&) -> mx_failure* { return nullptr; };
  Gate gate;
  How outer{{}, {v}};
  outer.flags = MX_PUSH_PYTHON;
  table.push(outer, [&](const mx_run_context&) -> mx_failure* {
    gate.pass();
    table.push(on(device, {}, {w}), nothing);
    CHECK(table.wait(w).empty());
    return nullptr;
  });
  table.push(on(device, {v}, {}), nothing);
  gate.open();
  table.quiet();
  for (mx_variable* each : {v, w}) table.remove(each);
}

void threads_stop_at_once() {
  FakeDevice device(MX_FIRST_PLUGIN_DEVICE, 2, 5);
  const Table table(2);
  attach(table, device);
  std::vector<mx_variable*> v;
  for (int i = 0; i < 6; ++i) v.push_back(table.variable());
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 40; ++i) table->stop(table.self());
    });
    threads.emplace_back([&, t] {
      for (int i = 0; i < 400; ++i) {
        mx_variable* written = v[static_cast<size_t>(i % 3 + 3 * t)];
        if (i % 3 == 0) {
          table.push({{}, {written}}, [](const mx_run_context&) -> mx_failure* { return nullptr; });
        } else {
          enqueue(table, on(device, {}, {written}, t, i % 2 == 0 ? MX_FN_COPY_TO_DEVICE : MX_FN_NORMAL), [] {});
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  table.quiet();
  for (mx_variable* each : v) table.remove(each);
}

}  // namespace

int main() {
  return run({
      {"devices are attached once", devices_are_attached_once},
      {"launched is not done", launched_is_not_done},
      {"streams wait for each other", streams_wait_for_each_other},
      {"a writer comes behind readers of other streams", a_writer_comes_behind_readers_of_other_streams},
      {"deletions are done when the device is", deletions_are_done_when_the_device_is},
      {"failures of bodies and tokens", failures_of_bodies_and_tokens},
      {"what leaves no token", what_leaves_no_token_waits_for_all_before_it},
      {"asynchronous operations", asynchronous_operations_are_launched_when_completed},
      {"a naive engine waits at once", a_naive_engine_waits_at_once},
      {"profiles", profiles_tell_when_the_device_was_done},
      {"stops and ends in flight", stops_and_ends_in_flight},
      {"launches keep the order of pushes", launches_keep_the_order_of_pushes},
      {"what an operation pushes takes no turn", what_an_operation_pushes_takes_no_turn},
      {"threads stop at once", threads_stop_at_once},
      {"threads launch on the same streams", threads_launch_on_the_same_streams},
  });
}
