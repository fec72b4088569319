// SPDX-License-Identifier: Apache-2.0
//
// Python objects that native code looks up once for the life of the process.
#pragma once

#include <memory>
#include <utility>

namespace mx::symbol {

// What `place` points to; `make` makes it on first use, and it is leaked, since a module lives as long as the process.
// GIL held.  A static initialiser would not do: importing hands the GIL to threads that would then wait, with it, for
// the one that imports.  Two threads may both call `make`; the first result is the one that everybody gets.
template <class T, class Make>
const T& made_once(const T*& place, Make&& make) {
  if (place == nullptr) {
    auto made = std::make_unique<T>(std::forward<Make>(make)());
    if (place == nullptr) place = made.release();
  }
  return *place;
}

}  // namespace mx::symbol
