// SPDX-License-Identifier: Apache-2.0
//
// A chunk is a piece of memory and the engine variable that orders its use.
#pragma once

#include <mutex>
#include <string>

#include "ref.hpp"
#include "runtime.hpp"

namespace mx::nd {

// Threads: any.  Memory arrives when it is first needed and goes through the engine: the deleter
// of the variable runs after everything that was pushed on it.  So an operation that names the
// variable may keep a plain Chunk*.
class Chunk : public Counted {
 public:
  // Memory of the context's storage manager, taken on first use.
  static Ref<Chunk> lazy(mx_context context, size_t bytes);
  // Memory somebody else owns; `release(owner)` is called when nobody uses it any more.
  static Ref<Chunk> foreign(mx_context context, void* data, size_t bytes, void* owner,
                            void (*release)(void* owner), bool read_only = false);

  void retain() noexcept { add_reference(); }
  void release() noexcept;

  mx_variable* variable() const noexcept { return variable_; }
  mx_context context() const noexcept { return context_; }
  size_t bytes() const noexcept { return bytes_; }
  // Its owner said so: operators may not write it.
  bool read_only() const noexcept { return read_only_; }
  // Whether it holds, or has held, gradients of leaves, which every backward may write.
  bool has_gradients() const noexcept { return has_gradients_.load(std::memory_order_relaxed); }
  void set_has_gradients() noexcept { has_gradients_.store(true, std::memory_order_relaxed); }
  // NULL while there is none.
  void* data() const noexcept { return data_.load(std::memory_order_acquire); }
  // The memory; `zero` clears it if it is new and the host can reach it.  Throws Error.
  void* allocate(bool zero = false) {
    void* data = data_.load(std::memory_order_acquire);
    return data != nullptr || bytes_ == 0 ? data : allocate_slow(zero);
  }
  // For results whose size appears when they are computed; only the writer may call it.
  void resize(size_t bytes);

 private:
  Chunk(mx_context context, size_t bytes);
  ~Chunk() = default;
  void* allocate_slow(bool zero);
  static void destroy(void* self) noexcept;

  mx_variable* variable_;
  mx_context context_;
  size_t bytes_;
  bool read_only_ = false;
  std::atomic<bool> has_gradients_{false};
  std::atomic<void*> data_{nullptr};
  mx_block block_{};
  const char* tag_;  // who holds the memory, for the storage manager
  void* owner_ = nullptr;
  void (*release_owner_)(void*) = nullptr;
};

// What this thread's new chunks are called when memory is counted: a scope's prefix before "ndarray".
void set_memory_scope(const std::string& prefix);

}  // namespace mx::nd
