// SPDX-License-Identifier: Apache-2.0
#include "push_locks.hpp"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <new>
#include <type_traits>

namespace mx::symbol {
namespace {

using Mutexes = std::array<std::mutex, PushLocks::kStripes>;

// Made before any code runs, and never destroyed: threads may push until the process ends.
Mutexes mutexes;
static_assert(std::is_trivially_destructible_v<Mutexes>);

// A child of a fork begins with its own, since who held one may be gone. Registered when the library is loaded: the
// first push would do it under a guard that a fork may find held.
[[maybe_unused]] const int registered = ::pthread_atfork(nullptr, nullptr, [] { new (&mutexes) Mutexes; });

}  // namespace

PushLocks::Held::~Held() {
  if (stripes_ == nullptr) return;
  for (const uint32_t stripe : *stripes_) mutexes[stripe].unlock();
}

void PushLocks::find(const std::vector<mx_variable*>& memory, Stripes& stripes) {
  stripes.clear();
  for (const mx_variable* variable : memory) {
    // Variables are aligned, so the lowest bits of their addresses tell nothing.
    stripes.push_back(static_cast<uint32_t>(reinterpret_cast<uintptr_t>(variable) / 64 % kStripes));
  }
  std::sort(stripes.begin(), stripes.end());
  stripes.erase(std::unique(stripes.begin(), stripes.end()), stripes.end());
}

PushLocks::Held PushLocks::hold(const Stripes& stripes) {
  for (const uint32_t stripe : stripes) mutexes[stripe].lock();
  return Held(&stripes);
}

}  // namespace mx::symbol
