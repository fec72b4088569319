// SPDX-License-Identifier: Apache-2.0
//
// How memory of a context is found: from its source alone, or from a pool of what was freed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace mx::cuda {

// Where memory comes from.  Threads: one at a time.
class Source {
 public:
  virtual ~Source() = default;
  // Aligned to at least 64 bytes; NULL when there is no more.  May throw mx::Error for other reasons.
  virtual void* take(size_t bytes) = 0;
  virtual void give(void* data) noexcept = 0;
  // True where taking that much would leave others less than what is reserved for them.
  virtual bool reaches_reserve(size_t /*bytes*/) const { return false; }
};
// `reserve` in percent of the device's memory: for what shares it, such as libraries and the driver.
std::unique_ptr<Source> device_memory(int32_t gpu, int reserve);
std::unique_ptr<Source> pinned_memory();

// Threads: one at a time; the account locks.
class Pool {
 public:
  virtual ~Pool() = default;
  // At least `bytes` (> 0); NULL when the source has none.  `*reused`: nothing was asked of the source.
  virtual void* alloc(size_t bytes, bool* reused) = 0;
  virtual void free(void* data) noexcept = 0;
  // Past the pool: to the source, as soon as nothing else lies in the same piece of its memory.
  virtual void direct_free(void* data) noexcept = 0;
  // Gives everything unused back to the source.
  virtual void release() noexcept = 0;
  // Bytes kept for reuse.
  virtual uint64_t pooled() const noexcept = 0;
};

enum class PoolType { kPooled, kBestFit, kNaive };
// Arenas cut to size.
std::unique_ptr<Pool> make_best_fit_pool(std::unique_ptr<Source> source);
std::unique_ptr<Pool> make_pool(PoolType type, std::unique_ptr<Source> source);

// The size a pooled block has: four steps per power of two from 512 bytes on, above 1 MiB whole
// multiples of 2 MiB, which is how the driver maps memory anyway.
size_t class_bytes(size_t bytes) noexcept;

}  // namespace mx::cuda
