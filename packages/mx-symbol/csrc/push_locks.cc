// SPDX-License-Identifier: Apache-2.0
#include "push_locks.hpp"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <new>

namespace mx::symbol {
namespace {

// A child of a fork begins with its own, since who held one may be gone.
struct Table {
  Table() {
    ::pthread_atfork(nullptr, nullptr, [] { new (&get().mutexes) decltype(Table::mutexes); });
  }
  static Table& get() {
    static auto* made = new Table;  // leaked: threads may push until the process ends
    return *made;
  }
  std::array<std::mutex, PushLocks::kStripes> mutexes;
};

}  // namespace

PushLocks::Held::~Held() {
  if (stripes_ == nullptr) return;
  for (const uint32_t stripe : *stripes_) Table::get().mutexes[stripe].unlock();
}

PushLocks::Stripes PushLocks::of(const std::vector<mx_variable*>& memory) {
  Stripes stripes;
  for (const mx_variable* variable : memory) {
    // Variables are aligned, so the lowest bits of their addresses tell nothing.
    stripes.push_back(static_cast<uint32_t>(reinterpret_cast<uintptr_t>(variable) / 64 % kStripes));
  }
  std::sort(stripes.begin(), stripes.end());
  stripes.erase(std::unique(stripes.begin(), stripes.end()), stripes.end());
  return stripes;
}

PushLocks::Held PushLocks::hold(const Stripes& stripes) {
  for (const uint32_t stripe : stripes) Table::get().mutexes[stripe].lock();
  return Held(&stripes);
}

}  // namespace mx::symbol
