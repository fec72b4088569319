// SPDX-License-Identifier: Apache-2.0
//
// Mutexes of this library that outlive static destruction and forks.
#pragma once

#include <pthread.h>

#include <mutex>

namespace mx::nd {

// The one mutex of a tag.  A fork holds it, so that no child finds it locked by a thread that it does not have;
// whoever holds it therefore takes no lock besides.
template <class Tag>
std::mutex& leaf_mutex() noexcept {
  static auto* mutex = new std::mutex;  // leaked: threads may outlive static destruction
  static const int installed = ::pthread_atfork([] { mutex->lock(); }, [] { mutex->unlock(); },
                                                [] { mutex->unlock(); });
  static_cast<void>(installed);
  return *mutex;
}

}  // namespace mx::nd
