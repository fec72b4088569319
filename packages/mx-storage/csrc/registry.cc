// SPDX-License-Identifier: Apache-2.0
#include "registry.hpp"

#include <pthread.h>

#include <algorithm>
#include <vector>

namespace mx::storage {
namespace {

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

}  // namespace mx::storage
