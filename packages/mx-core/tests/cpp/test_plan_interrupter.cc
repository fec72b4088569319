// SPDX-License-Identifier: Apache-2.0
#include "plan_interrupter.hpp"

#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <mutex>
#include <numeric>
#include <thread>

#include "mx_core/native_tests.hpp"
#include "mx_core/plan.hpp"

namespace {

constexpr int64_t kSize = 1 << 14;

mx::Signature signature() {
  mx::Signature made;
  made.inputs.emplace_back(mx::Shape{kSize}, MX_FLOAT32);
  made.outputs.emplace_back(mx::Shape{kSize}, MX_FLOAT32);
  return made;
}

// output = 2 * input, through memory of its own, of the run or of the plan; input += 1 where it is a state.
class Twice final : public mx::Plan {
 public:
  enum Kind { kRight, kKeeps, kLocks, kFails, kHalf };
  explicit Twice(Kind kind) : Plan("twice", signature()), kind_(kind), kept_(kSize) { own_ = add_scratch<float>(kSize); }

 private:
  void execute(const mx::Call& call) const override {
    std::unique_lock<std::mutex> lock(mutex_, std::defer_lock);
    if (kind_ == kLocks) lock.lock();
    float* between = kind_ == kRight || kind_ == kHalf ? call.scratch<float>(own_) : kept_.data();
    auto* x = call.state<float>(0);
    auto* y = call.output<float>(0);
    for (int64_t i = 0; i < kSize; ++i) between[i] = x[i];
    for (int64_t i = 0; i < (kind_ == kHalf ? kSize / 2 : kSize); ++i) y[i] = 2 * between[i];
    for (int64_t i = 0; i < kSize; ++i) x[i] += 1;
    if (kind_ == kFails && ++runs_ > 20) refuse(MX_ERROR_INDEX, "the twenty-first run");
  }
  const Kind kind_;
  mx::Section own_;
  mutable std::vector<float> kept_;
  mutable std::mutex mutex_;
  mutable int runs_ = 0;
};

struct Run {
  explicit Run(float first) : x(kSize), y(kSize) {
    std::iota(x.begin(), x.end(), first);
    tensors.inputs = {{x.data(), shape, kSize * sizeof(float), {MX_CPU, 0}, MX_FLOAT32, 1, 0}};
    tensors.outputs = {{y.data(), shape, kSize * sizeof(float), {MX_CPU, 0}, MX_FLOAT32, 1, 0}};
  }
  const int64_t shape[1] = {kSize};
  std::vector<float> x, y;
  mx::core::Tensors tensors;
};

mx::core::Interrupted interrupted(Twice::Kind kind, uint32_t rounds) {
  const mx::PlanPtr plan(new Twice(kind));
  const Run stopped(0), between(-100000);
  return mx::core::interrupt_plan(*plan, stopped.tensors, between.tensors, {},
                                  {rounds, std::chrono::milliseconds(500), std::chrono::milliseconds(5)});
}

void right_plans_differ_nowhere() {
  const auto found = interrupted(Twice::kRight, 50);
  CHECK(found.differing.empty() && found.rounds <= 50);
}

void plans_with_a_lock_are_not_stopped_for_ever() { CHECK(interrupted(Twice::kLocks, 10).differing.empty()); }

void what_a_run_throws_is_thrown() {
  test::error_of([] { interrupted(Twice::kFails, 50); }, MX_ERROR_INDEX);
}

void what_is_written_in_part_differs_nowhere() { CHECK(interrupted(Twice::kHalf, 50).differing.empty()); }

// A thread that cannot be stopped, and a timer that interrupts what waits for it, more often than the limit.
void the_limit_holds() {
  sigset_t urgent, before;
  sigemptyset(&urgent);
  sigaddset(&urgent, SIGURG);
  ::pthread_sigmask(SIG_BLOCK, &urgent, &before);
  struct sigaction ignored {}, old {};
  ignored.sa_handler = [](int) {};
  ::sigaction(SIGALRM, &ignored, &old);
  const itimerval often{{0, 20'000}, {0, 20'000}}, never{};
  ::setitimer(ITIMER_REAL, &often, nullptr);
  CHECK(interrupted(Twice::kRight, 10).rounds == 0);
  ::setitimer(ITIMER_REAL, &never, nullptr);
  ::sigaction(SIGALRM, &old, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void a_child_may_interrupt_while_the_parent_does() {
  std::thread parent([] { interrupted(Twice::kLocks, 1000); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    interrupted(Twice::kRight, 3);
    ::_exit(0);
  }
  int status = 1;
  CHECK(::waitpid(child, &status, 0) == child && status == 0);
  parent.join();
}

void plans_that_keep_results_in_themselves_differ() {
  const auto found = interrupted(Twice::kKeeps, 50);
  CHECK(!found.differing.empty());
  for (const auto& one : found.differing) CHECK(one.tensors.size() == 2 && one.tensors[1].size() == kSize * sizeof(float));
}

}  // namespace

int main() {
  return test::run({
      {"right plans differ nowhere", right_plans_differ_nowhere},
      {"what is written in part differs nowhere", what_is_written_in_part_differs_nowhere},
      {"the limit holds", the_limit_holds},
      {"plans with a lock are not stopped for ever", plans_with_a_lock_are_not_stopped_for_ever},
#ifndef __SANITIZE_THREAD__  // which delays signals, and has found these by itself
      {"what a run throws is thrown", what_a_run_throws_is_thrown},
      {"a child may interrupt while the parent does", a_child_may_interrupt_while_the_parent_does},
      {"plans that keep results in themselves differ", plans_that_keep_results_in_themselves_differ},
#endif
  });
}
