// SPDX-License-Identifier: Apache-2.0
//
// A child pushes what another thread was pushing when its parent forked.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>

#include "binding.hpp"
#include "mx_core/native_tests.hpp"
#include "nodes.hpp"

namespace {

std::atomic<bool> inside{false};
thread_local bool slow = false;
thread_local bool pushes = false;

__attribute__((noinline)) void* slowly(std::size_t size) {
  if (slow) {
    slow = false;
    inside = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}

}  // namespace

// For the thread sanitizer: a child has none of its parent's threads.
extern "C" const char* __tsan_default_options() { return "report_thread_leaks=0"; }

void* operator new(std::size_t size) { return slowly(size); }
void* operator new[](std::size_t size) { return slowly(size); }
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete[](void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

using mx::symbol::Binding;
using mx::symbol::Program;

// Of two threads that push one binding, one forks while the other one is inside its first allocation.
void a_child_may_push_too() {
  Fakes fakes;
  mx_call add;
  add.body = plus(1);
  const auto program = std::make_shared<Program>(fakes.tables(), kHost, "sum");
  for (int i = 0; i < 2; ++i) program->add_array();
  const uint32_t in = program->add_slot(window(0), 4), out = program->add_slot(window(1), 4);
  program->add_node(node("add", add, {in}, {out}));
  program->seal({1});
  mx_array given(1), result(1);
  const auto binding = std::make_shared<Binding>(program, std::vector<mx_array*>{&given, &result});
  // The fork begins while the thread is inside its allocation, and ends before it takes the locks of the fakes' arrays,
  // which, unlike an engine's, do not survive a fork.
  std::atomic<bool> forked{false};
  fakes.before_push = [&] {
    while (pushes && !forked) std::this_thread::yield();
  };
  std::thread other([&] {
    slow = pushes = true;
    binding->push(0, 0);
  });
  while (!inside) std::this_thread::yield();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(10);  // a lock that is held for ever ends the child by a signal
    given.values[0] = 6;
    binding->push(0, 0);
    ::_exit(result.values[0] == 7 ? 0 : 1);
  }
  forked = true;
  int status = -1;
  ::waitpid(child, &status, 0);
  other.join();
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace

int main() {
  a_child_may_push_too();
  std::puts("ok");
  return 0;
}
