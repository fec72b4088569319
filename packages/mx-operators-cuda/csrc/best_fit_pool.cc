// SPDX-License-Identifier: Apache-2.0
//
// Large pieces of device memory that are cut to size, for sizes that never repeat.
#include "mx_core/best_fit.hpp"

#include <algorithm>

#include "pool.hpp"

namespace mx::cuda {
namespace {

constexpr size_t kArena = size_t{32} << 20;
constexpr size_t kCut = 512;

class BestFitPool final : public Pool {
 public:
  explicit BestFitPool(std::unique_ptr<Source> source) : source_(std::move(source)) {}
  ~BestFitPool() override { BestFitPool::release(); }

  void* alloc(size_t bytes, bool* reused) override {
    const size_t size = (bytes + kCut - 1) / kCut * kCut;
    void* data = pieces_.take(size);
    *reused = data != nullptr;
    if (data != nullptr) return data;
    return grow(std::max(size, kArena)) || grow(size) ? pieces_.take(size) : nullptr;
  }
  void free(void* data) noexcept override { pieces_.give(data); }
  void direct_free(void* data) noexcept override {
    pieces_.give(data, [this](void* arena, size_t) { source_->give(arena); });
  }
  void release() noexcept override {
    pieces_.release([this](void* arena, size_t) { source_->give(arena); });
  }
  uint64_t pooled() const noexcept override { return pieces_.free_bytes(); }

 private:
  bool grow(size_t length) {
    if (pooled() != 0 && source_->reaches_reserve(length)) release();
    void* arena = source_->take(length);
    if (arena == nullptr) return false;
    try {
      pieces_.add(arena, length);
    } catch (...) {
      source_->give(arena);
      throw;
    }
    return true;
  }

  const std::unique_ptr<Source> source_;
  BestFit pieces_;
};

}  // namespace

std::unique_ptr<Pool> make_best_fit_pool(std::unique_ptr<Source> source) {
  return std::make_unique<BestFitPool>(std::move(source));
}

}  // namespace mx::cuda
