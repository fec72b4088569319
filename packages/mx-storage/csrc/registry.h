// SPDX-License-Identifier: Apache-2.0
//
// The pools of the process, for the ends of threads and for fork.
#pragma once

#include <mutex>

namespace mx::storage {

class SmallPool;
class LargePool;

// Guards every pool's list of caches, and the lists of pools.  Never destroyed.
std::mutex& registry_mutex() noexcept;

// The registry is held for all of these.
void enlist(SmallPool* pool);
void enlist(LargePool* pool);
void delist(SmallPool* pool) noexcept;
void delist(LargePool* pool) noexcept;

}  // namespace mx::storage
