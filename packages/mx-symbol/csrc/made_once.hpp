// SPDX-License-Identifier: Apache-2.0
//
// Python objects that native code looks up once for the life of the process.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

namespace mx::symbol {

// What `place` points to; `make` makes it on first use, and it is leaked, since a module lives as long as the process.
// GIL held.  A static initialiser would not do: importing hands the GIL to threads that would then wait, with it, for
// the one that imports.  Two threads may both call `make`; the first result is the one that everybody gets.
template <class T, class Make>
const T& made_once(std::atomic<const T*>& place, Make&& make) {
  const T* known = place.load(std::memory_order_acquire);
  if (known != nullptr) return *known;
  std::unique_ptr<const T> made = std::make_unique<T>(std::forward<Make>(make)());
  if (place.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel)) return *made.release();
  return *known;
}

}  // namespace mx::symbol
