// SPDX-License-Identifier: Apache-2.0
//
// Stacks for signal handlers: of threads that come and go, beside those that a program sets itself, and in forks.
#include "mx_core/signal_stack.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

#include "mx_core/native_tests.hpp"

using mx::SignalStack;

namespace {

std::atomic<int> handled{0};
alignas(16) char own[64 << 10];  // a stack of the program's
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // by what sets stacks, and keeps memory, itself
#else
constexpr bool kSanitized = false;
#endif

stack_t stack_of_this_thread() {
  stack_t found{};
  CHECK(::sigaltstack(nullptr, &found) == 0);
  return found;
}

void set_own(stack_t* before) {
  stack_t wanted{};
  wanted.ss_sp = own;
  wanted.ss_size = sizeof own;
  CHECK(::sigaltstack(&wanted, before) == 0);
}

void is_on_the_stack(int) {
  const stack_t found = stack_of_this_thread();
  CHECK((found.ss_flags & SS_ONSTACK) != 0);
  const auto here = reinterpret_cast<uintptr_t>(&found), begin = reinterpret_cast<uintptr_t>(found.ss_sp);
  CHECK(here >= begin && here < begin + found.ss_size);
  ++handled;
}

// A child of the handler goes on on its copy of the stack, and its threads get their own.
void forks(int) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::thread([] { SignalStack::of_this_thread(); }).join();
    ::_exit(7);
  }
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
  ++handled;
}

void handle(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_ONSTACK;
  CHECK(::sigaction(number, &action, nullptr) == 0);
}

void raised(int number) {
  const int before = handled;
  CHECK(::raise(number) == 0 && handled > before);
}

template <class Body>
void on_a_thread(const Body& body) {
  std::thread([&] { body(); }).join();
}

long mapped_pages() {
  long pages = 0;
  FILE* file = std::fopen("/proc/self/statm", "r");
  CHECK(file != nullptr && std::fscanf(file, "%ld", &pages) == 1);
  std::fclose(file);
  return pages;
}

void threads_come_and_go() {
  const auto one = [] {
    for (int i = 0; i < 2; ++i) SignalStack::of_this_thread();
    raised(SIGUSR1);
  };
  on_a_thread(one);
  const long before = mapped_pages();
  for (int i = 0; i < 500; ++i) on_a_thread(one);
  CHECK(kSanitized || mapped_pages() - before < 500);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      SignalStack::of_this_thread();
      for (int i = 0; i < 20; ++i) on_a_thread(one);
      raised(SIGUSR1);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void a_program_may_set_its_own() {
  on_a_thread([] {
    set_own(nullptr);
    SignalStack::of_this_thread();
    raised(SIGUSR1);
    CHECK(stack_of_this_thread().ss_sp == own);
  });
  on_a_thread([] {
    SignalStack::of_this_thread();
    set_own(nullptr);
    raised(SIGUSR1);
    CHECK(stack_of_this_thread().ss_sp == own);  // and the thread ends with it
  });
  on_a_thread([] {
    stack_t before{};
    SignalStack::of_this_thread();
    set_own(&before);
    CHECK(::sigaltstack(&before, nullptr) == 0);
    raised(SIGUSR1);
    CHECK(stack_of_this_thread().ss_sp == before.ss_sp);
  });
}

void a_handler_may_fork() {
  on_a_thread([] {
    SignalStack::of_this_thread();
    raised(SIGUSR2);
  });
}

void without_memory_a_thread_goes_on() {
  on_a_thread([] {
    rlimit before{};
    CHECK(::getrlimit(RLIMIT_AS, &before) == 0);
    rlimit none = before;
    none.rlim_cur = 0;
    CHECK(::setrlimit(RLIMIT_AS, &none) == 0);
    SignalStack::of_this_thread();
    CHECK(::setrlimit(RLIMIT_AS, &before) == 0);
    CHECK((stack_of_this_thread().ss_flags & SS_DISABLE) != 0);
  });
}

}  // namespace

int main() {
  handle(SIGUSR1, is_on_the_stack);
  handle(SIGUSR2, forks);
  threads_come_and_go();
  if (kSanitized) return 0;
  a_program_may_set_its_own();
  a_handler_may_fork();
  without_memory_a_thread_goes_on();
}
