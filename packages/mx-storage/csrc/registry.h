// SPDX-License-Identifier: Apache-2.0
//
// The pools of the process, for the ends of threads and for fork.
#pragma once

#include <mutex>

namespace mx::storage {

class SmallPool;

// Guards every pool's list of caches, and the lists of pools.  Never destroyed.
std::mutex& registry_mutex() noexcept;

// The registry is held for all of these.
void enlist(SmallPool* pool);
// A lock that no fork may find held.
void enlist(std::mutex* lock);
void delist(SmallPool* pool) noexcept;
void delist(std::mutex* lock) noexcept;

}  // namespace mx::storage
