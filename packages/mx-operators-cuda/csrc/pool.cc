// SPDX-License-Identifier: Apache-2.0
#include "pool.hpp"

#include <map>
#include <unordered_map>
#include <utility>

namespace mx::cuda {
namespace {

constexpr size_t kSmallest = 512;
constexpr size_t kSmallLimit = size_t{1} << 20;
constexpr size_t kLargeStep = size_t{2} << 20;

class DirectPool final : public Pool {
 public:
  explicit DirectPool(std::unique_ptr<Source> source) : source_(std::move(source)) {}
  void* alloc(size_t bytes, bool* reused) override {
    *reused = false;
    return source_->take(bytes);
  }
  void free(void* data) noexcept override { source_->give(data); }
  void direct_free(void* data) noexcept override { source_->give(data); }
  void release() noexcept override {}
  uint64_t pooled() const noexcept override { return 0; }

 private:
  const std::unique_ptr<Source> source_;
};

// Rounded sizes; a free block serves the smallest request that loses at most an eighth of it, the one
// freed last first.
class RoundPool final : public Pool {
  using Free = std::multimap<size_t, void*>;

 public:
  explicit RoundPool(std::unique_ptr<Source> source) : source_(std::move(source)) {}
  ~RoundPool() override { RoundPool::release(); }

  void* alloc(size_t bytes, bool* reused) override {
    const size_t size = class_bytes(bytes);
    const auto found = free_.lower_bound(size);
    *reused = found != free_.end() && found->first - size <= found->first / 8;
    if (*reused) {
      const auto last = std::prev(free_.upper_bound(found->first));
      void* data = last->second;
      pooled_ -= last->first;
      blocks_.at(data).node = free_.extract(last);
      return data;
    }
    if (pooled_ != 0 && source_->reaches_reserve(size)) release();
    void* data = source_->take(size);
    if (data == nullptr) return nullptr;
    try {
      // the node lives with the block, so that freeing needs no memory
      Free one;
      one.emplace(size, data);
      blocks_.emplace(data, Block{size, one.extract(one.begin())});
    } catch (...) {
      source_->give(data);
      throw;
    }
    return data;
  }
  void free(void* data) noexcept override {
    Block& block = blocks_.at(data);
    free_.insert(std::move(block.node));
    pooled_ += block.size;
  }
  void direct_free(void* data) noexcept override {
    blocks_.erase(data);
    source_->give(data);
  }
  void release() noexcept override {
    for (const auto& [size, data] : free_) {
      blocks_.erase(data);
      source_->give(data);
    }
    free_.clear();
    pooled_ = 0;
  }
  uint64_t pooled() const noexcept override { return pooled_; }

 private:
  struct Block {
    size_t size;
    Free::node_type node;  // of free_ while the block is used
  };
  const std::unique_ptr<Source> source_;
  std::unordered_map<void*, Block> blocks_;  // all, used or free
  Free free_;
  uint64_t pooled_ = 0;
};

}  // namespace

size_t class_bytes(size_t bytes) noexcept {
  if (bytes <= kSmallest) return kSmallest;
  size_t step = kLargeStep;
  if (bytes <= kSmallLimit) {
    size_t power = kSmallest;
    while (power * 2 < bytes) power *= 2;
    step = power / 4;
  }
  return (bytes + step - 1) / step * step;
}

std::unique_ptr<Pool> make_pool(PoolType type, std::unique_ptr<Source> source) {
  switch (type) {
    case PoolType::kPooled: return std::make_unique<RoundPool>(std::move(source));
    case PoolType::kBestFit: return make_best_fit_pool(std::move(source));
    case PoolType::kNaive: break;
  }
  return std::make_unique<DirectPool>(std::move(source));
}

}  // namespace mx::cuda
