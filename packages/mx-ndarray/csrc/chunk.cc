// SPDX-License-Identifier: Apache-2.0
#include "chunk.hpp"

#include <cstring>

#include "interpreter_lock.hpp"
#include "leaf_mutex.hpp"
#include "workspace.hpp"

namespace mx::nd {
namespace {

constexpr const char* kTag = "ndarray";
thread_local const char* the_tag = kTag;

}  // namespace

void set_memory_scope(const std::string& prefix) {
  if (prefix.empty()) {
    the_tag = kTag;
    return;
  }
  const mx_engine_api* engine = Runtime::instance().engine();
  const char* tag = engine->intern(engine->self, (prefix + kTag).c_str());
  the_tag = tag == nullptr ? kTag : tag;
}

Chunk::Chunk(mx_context context, size_t bytes) : context_(context), bytes_(bytes), tag_(the_tag) {
  const mx_engine_api* engine = Runtime::instance().engine();
  Runtime::instance().require(context);
  variable_ = engine->new_variable(engine->self);
  if (variable_ == nullptr) throw std::bad_alloc();
}

Ref<Chunk> Chunk::lazy(mx_context context, size_t bytes) {
  return Ref<Chunk>::adopt(new Chunk(context, bytes));
}

Ref<Chunk> Chunk::foreign(mx_context context, void* data, size_t bytes, void* owner,
                          void (*release)(void*), bool read_only) {
  Chunk* chunk = nullptr;
  try {
    chunk = new Chunk(context, bytes);
  } catch (...) {
    release(owner);  // the caller gave it away
    throw;
  }
  chunk->owner_ = owner;
  chunk->read_only_ = read_only;
  chunk->release_owner_ = release;
  chunk->data_.store(data, std::memory_order_release);
  return Ref<Chunk>::adopt(chunk);
}

void Chunk::release() noexcept {
  if (!drop_reference()) return;
  const mx_engine_api* engine = Runtime::instance().engine();
  const WithoutInterpreter without(false);
  engine->delete_variable(engine->self, variable_, context_, &Chunk::destroy, this);
}

void Chunk::destroy(void* self) noexcept {
  auto* chunk = static_cast<Chunk*>(self);
  if (chunk->release_owner_ != nullptr) chunk->release_owner_(chunk->owner_);
  if (chunk->block_.data != nullptr) {
    const mx_storage_api* storage = Runtime::instance().storage(chunk->context_.type);
    storage->free(storage->self, &chunk->block_);
  }
  if (!mx_on_host(chunk->context_)) reclaim_workspaces();
  delete chunk;
}

void* Chunk::allocate_slow(bool zero) {
  const mx_block block = allocate_block(context_, bytes_, tag_);
  if (zero && mx_on_host(context_)) std::memset(block.data, 0, bytes_);
  {
    // First allocations are rare per chunk; one lock for all of them keeps a chunk small.
    std::lock_guard<std::mutex> lock(leaf_mutex<Chunk>());
    if (data_.load(std::memory_order_relaxed) == nullptr) {
      block_ = block;
      data_.store(block.data, std::memory_order_release);
      return block.data;
    }
  }
  const mx_storage_api* storage = Runtime::instance().storage(context_.type);
  storage->free(storage->self, &block);  // another reader was first
  return data_.load(std::memory_order_acquire);
}

void Chunk::resize(size_t bytes) {
  if (data() != nullptr) throw Error(MX_ERROR, "[NDArray] a chunk with memory cannot be resized");
  bytes_ = bytes;
}

}  // namespace mx::nd
