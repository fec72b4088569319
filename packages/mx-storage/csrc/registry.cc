// SPDX-License-Identifier: Apache-2.0
#include "registry.h"

#include <pthread.h>

#include <algorithm>
#include <vector>

namespace mx::storage {
namespace {

constexpr int kSpins = 100;

struct Registry {
  std::mutex mutex;
  std::vector<Forked*> holders;
};

Registry& registry() noexcept {
  static auto* the_registry = new Registry;  // threads may end after static destruction
  return *the_registry;
}

void before_fork() {
  registry().mutex.lock();
  for (Forked* holder : registry().holders) holder->lock_for_fork();
}

void after_fork() {
  for (Forked* holder : registry().holders) holder->unlock_after_fork();
  registry().mutex.unlock();
}

[[maybe_unused]] const int installed = ::pthread_atfork(before_fork, after_fork, after_fork);

void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

}  // namespace

std::mutex& registry_mutex() noexcept { return registry().mutex; }

void enlist(Forked* holder) {
  const std::lock_guard<std::mutex> lock(registry().mutex);
  registry().holders.push_back(holder);
}

void delist(Forked* holder) noexcept {
  const std::lock_guard<std::mutex> lock(registry().mutex);
  auto& all = registry().holders;
  all.erase(std::remove(all.begin(), all.end(), holder), all.end());
}

void SpinningMutex::lock() {
  for (int i = 0; i < kSpins; ++i) {
    if (mutex_.try_lock()) return;
    pause();
  }
  mutex_.lock();
}

}  // namespace mx::storage
