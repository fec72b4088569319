// SPDX-License-Identifier: Apache-2.0
//
// Random programs give the state and the failures of the sequential model, whatever the engine
// type and the number of threads.  MX_TEST_PROGRAMS sets how many.
#include <condition_variable>
#include <deque>
#include <mutex>

#include "fake_device.hpp"
#include "program.hpp"
#include "support.hpp"

using namespace test;

namespace {

// Ends asynchronous operations, as a device or a network would: later, on a thread of its own.
class Completer {
 public:
  Completer() : thread_([this] { main(); }) {}
  ~Completer() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      closed_ = true;
    }
    condition_.notify_one();
    thread_.join();
  }
  void submit(std::function<void()> task) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    condition_.notify_one();
  }

 private:
  void main() {
    for (;;) {
      std::function<void()> task;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        condition_.wait(lock, [this] { return closed_ || !tasks_.empty(); });
        if (tasks_.empty()) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      task();
    }
  }
  std::mutex mutex_;
  std::condition_variable condition_;
  std::deque<std::function<void()>> tasks_;
  bool closed_ = false;
  std::thread thread_;
};

// Two accelerators of one kind and one of another.
struct Devices {
  static constexpr int kCount = 3;
  FakeDevice pair{MX_FIRST_PLUGIN_DEVICE, 2, 20}, single{MX_FIRST_PLUGIN_DEVICE + 1, 1, 20};

  mx_context context(int device) const {
    return device < 2 ? pair.context(device) : single.context();
  }
  void attach(const Table& table) const {
    for (const FakeDevice* device : {&pair, &single}) {
      mx_error error{};
      CHECK(table->attach_device(table.self(), device->table(), &error) == MX_OK);
    }
  }
};

class Execution {
 public:
  Execution(const Table& table, Completer& completer, const Devices* devices, int variables)
      : table_(table),
        completer_(completer),
        devices_(devices),
        values(variables),
        users_(variables) {
    for (int i = 0; i < variables; ++i) handles.push_back(table.variable());
  }
  ~Execution() {
    // They may be in use: who uses one after its deleter finds it taken.
    for (size_t i = 0; i < handles.size(); ++i) {
      table_->delete_variable(
          table_.self(), handles[i], {MX_CPU, 0},
          [](void* users) { CHECK(static_cast<std::atomic<int>*>(users)->exchange(-1) == 0); }, &users_[i]);
    }
    table_.quiet();
  }

  void push(const Step& step) {
    How how;
    for (const int r : step.reads) how.reads.push_back(handles[r]);
    for (const int w : step.writes) how.writes.push_back(handles[w]);
    how.property = step.no_skip ? MX_FN_NO_SKIP : MX_FN_NORMAL;
    how.priority = step.priority;
    switch (step.manner) {
      case Manner::inlined: how.flags = MX_PUSH_INLINE; break;
      case Manner::python: how.flags = MX_PUSH_PYTHON; break;
      case Manner::parallel: how.flags = MX_PUSH_PARALLEL; break;
      default: break;
    }
    if (step.device >= 0) how.context = devices_->context(step.device);
    if (step.device >= 0 && step.lane > 0 && !step.no_skip) {
      how.property = step.lane == 1 ? MX_FN_COPY_TO_DEVICE : MX_FN_COPY_FROM_DEVICE;
    }
    if (step.manner == Manner::asynchronous) {
      table_.push_async(how, [this, step](const mx_run_context& run, mx_completion* done) {
        completer_.submit([this, step, stream = run.stream, done] {
          table_.complete(done, start(step, stream));
        });
      });
    } else {
      table_.push(how, [this, step](const mx_run_context& run) { return start(step, run.stream); });
    }
  }

 private:
  mx_failure* start(const Step& step, void* stream) {
    if (stream == nullptr) return body(step);
    // Who completes an asynchronous operation need not be who records its token.
    const bool late = step.fails_late && step.manner != Manner::asynchronous;
    if (step.fails && !late) return fail(failure_text(step));
    if (step.fails) FakeDevice::fail_next_token(failure_text(step));
    FakeDevice::enqueue(stream, [this, step] { FailureRef(body(step)); });
    return nullptr;
  }
  // Besides computing, checks that readers share and writers are alone.
  mx_failure* body(const Step& step) {
    for (const int r : step.reads) CHECK(users_[r].fetch_add(1) >= 0);
    for (const int w : step.writes) CHECK(users_[w].fetch_sub(1000000) == 0);
    mx_failure* failure = nullptr;
    if (step.fails) {
      failure = fail(failure_text(step));
    } else {
      const auto out = results(step, values);
      for (size_t i = 0; i < step.writes.size(); ++i) values[step.writes[i]] = out[i];
    }
    for (const int r : step.reads) users_[r].fetch_sub(1);
    for (const int w : step.writes) users_[w].fetch_add(1000000);
    return failure;
  }
  const Table& table_;
  Completer& completer_;
  const Devices* const devices_;

 public:
  std::vector<uint64_t> values;
  std::vector<mx_variable*> handles;

 private:
  std::vector<std::atomic<int>> users_;
};

void compare(const Table& table, Execution& execution, const Model& model) {
  for (size_t i = 0; i < execution.handles.size(); ++i) {
    const int v = static_cast<int>(i);
    // What depends on a failure may have run before the failure was known.
    if (execution.values[v] != model.values[v] && model.touched_by_failure(v)) {
      execution.values[v] = model.values[v];
    }
    CHECK(execution.values[v] == model.values[v]);
    CHECK(table.version(execution.handles[v]) == model.version(v));
    CHECK(table.failure_of(execution.handles[v]) == model.mark(v));
  }
}

// At any moment: what is in use is not joined.
bool join(const Table& table, const Execution& execution, Model& model, const std::vector<int>& variables) {
  std::vector<mx_variable*> handles;
  for (const int v : variables) handles.push_back(execution.handles[v]);
  mx_variable* joint = nullptr;
  mx_error error{};
  const int32_t status =
      table->join_variables(table.self(), handles.data(), static_cast<uint32_t>(handles.size()), &joint, &error);
  if (status == MX_OK) model.join(variables);
  CHECK(status == MX_OK || status == MX_TIMEOUT);
  return status == MX_OK;
}

void run_program(const Table& table, Completer& completer, const Devices* devices, uint64_t seed) {
  const int variables = 3 + static_cast<int>(seed % 20);
  Generator random(seed, variables, devices == nullptr ? 0 : Devices::kCount);
  const int failing = seed % 3 == 0 ? 0 : 4;
  Execution execution(table, completer, devices, variables);
  Model model(variables);
  // Failures are delivered in quiet moments only: at others it depends on time which operations
  // still find them.
  for (int phase = 0; phase < 4; ++phase) {
    const int steps = 20 + random.below(60);
    for (int i = 0; i < steps; ++i) {
      const Step step = random.step(failing);
      execution.push(step);
      model.execute(step);
      if (failing == 0 && random.chance(2)) {
        join(table, execution, model, random.some(1 + random.below(std::min(5, variables))));
      }
      if (failing == 0 && random.chance(2)) {
        const int v = random.below(variables);
        CHECK(table.wait(execution.handles[v], random.chance(50)).empty());
        CHECK(execution.values[v] == model.values[v]);
      }
    }
    table.quiet();
    compare(table, execution, model);
    if (random.chance(50)) {
      const auto together = random.some(1 + random.below(std::min(6, variables)));
      const bool may = model.may_be_joined(together), joined = join(table, execution, model, together);
      CHECK(joined == may);
      compare(table, execution, model);
    }
    for (int i = random.below(4); i > 0; --i) {
      const int v = random.below(variables);
      CHECK(table.wait(execution.handles[v], random.chance(50)) == model.deliver(v));
    }
    if (random.chance(30)) {
      const std::string first = table.wait_all();
      CHECK(first.empty() == !model.any_unseen());
      CHECK(first.empty() || model.is_unseen(first));
      model.deliver_all();
    }
    compare(table, execution, model);
  }
  table.wait_all();
  for (int i = 0; i < 30; ++i) execution.push(random.step(0));
}

int programs() {
  const char* text = std::getenv("MX_TEST_PROGRAMS");
  return text == nullptr ? 500 : std::atoi(text);
}

// `bulk`: in bulks of sizes that change from program to program.
void many(int workers, bool naive, bool per_device, bool bulk = false,
          const Devices* devices = nullptr, bool debug = false) {
  Completer completer;  // outlives the engine's threads, which hand it operations
  EngineOptions options;
  options.naive = naive;
  options.per_device = per_device;
  options.debug = debug;
  options.limits.compute = options.limits.python = workers;
  const Table table(options);
  if (devices != nullptr) devices->attach(table);
  for (int i = 0; i < programs(); ++i) {
    if (bulk) table->set_bulk_size(table.self(), 2 + i % 30);
    run_program(table, completer, devices, 1000 * workers + i);
  }
  table->set_bulk_size(table.self(), 0);
}

}  // namespace

int main() {
  return run({
      {"threaded, per device",
       [] {
         for (const int n : kWorkerCounts) many(n, false, true);
       }},
      {"threaded, pooled",
       [] {
         for (const int n : {1, 3}) many(n, false, false);
       }},
      {"threaded, in bulks",
       [] {
         for (const int n : {1, 3, 7}) many(n, false, true, true);
       }},
      {"naive", [] { many(1, true, true); }},
      {"debugging", [] { many(3, false, true, false, nullptr, true); }},
      {"with accelerators",
       [] {
         const Devices devices;
         for (const int n : {1, 3}) many(n, false, n == 1, n == 3, &devices);
         many(1, true, true, false, &devices);
       }},
  });
}
