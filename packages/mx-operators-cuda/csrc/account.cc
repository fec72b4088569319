// SPDX-License-Identifier: Apache-2.0
#include "account.hpp"

#include <algorithm>

#include "driver.hpp"
#include "mx_core/failure.hpp"

namespace mx::cuda {
namespace {

using Guard = std::lock_guard<std::mutex>;
constexpr uint64_t kLargestBlock = uint64_t{1} << 46;

}  // namespace

Account::Account(mx_context context, std::unique_ptr<Pool> pool)
    : context_(context), name_(name_of(context)), pool_(std::move(pool)) {}

void Account::alloc(size_t bytes, const char* tag, mx_block* block) {
  *block = {nullptr, bytes, context_, nullptr};
  const Guard lock(mutex_);
  ++allocations_;
  if (bytes == 0) return;
  if (bytes > kLargestBlock) refuse(bytes, tag, "no device has that much");
  if (limit_ != 0 && (bytes > limit_ || used_ > limit_ - bytes)) {
    refuse(bytes, tag, "the limit is reached");
  }
  Holder* holder = nullptr;
  if (tag != nullptr) holder = &holders_.try_emplace(tag, Holder{tag}).first->second;
  block->data = find(bytes);
  if (block->data == nullptr) refuse(bytes, tag, "the device has no more");
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  if (holder != nullptr) {
    holder->bytes += bytes;
    block->handle = holder;
  }
}

// What is pooled goes back to the device before it is said to be full, and before more is taken than
// the limit allows for blocks and pool together.
void* Account::find(size_t bytes) {
  bool reused = false;
  if (limit_ != 0 && used_ + pool_->pooled() + bytes > limit_) pool_->release();
  void* data = pool_->alloc(bytes, &reused);
  if (data == nullptr) {
    pool_->release();
    data = pool_->alloc(bytes, &reused);
  }
  hits_ += reused ? 1 : 0;
  return data;
}

void Account::free(const mx_block& block, bool direct) noexcept {
  if (block.data == nullptr) return;
  const Guard lock(mutex_);
  used_ -= block.bytes;
  if (block.handle != nullptr) static_cast<Holder*>(block.handle)->bytes -= block.bytes;
  if (direct) {
    pool_->direct_free(block.data);
  } else {
    pool_->free(block.data);
  }
}

void Account::release() noexcept {
  const Guard lock(mutex_);
  pool_->release();
}

mx_storage_stats Account::stats() noexcept {
  const Guard lock(mutex_);
  mx_storage_stats stats{};
  stats.size = sizeof stats;
  stats.bytes_in_use = used_;
  stats.bytes_pooled = pool_->pooled();
  stats.bytes_peak = peak_;
  stats.bytes_limit = limit_;
  stats.allocations = allocations_;
  stats.pool_hits = hits_;
  return stats;
}

void Account::reset_peak() noexcept {
  const Guard lock(mutex_);
  peak_ = used_;
}

void Account::set_limit(uint64_t bytes) noexcept {
  const Guard lock(mutex_);
  limit_ = bytes;
  if (limit_ != 0 && used_ + pool_->pooled() > limit_) pool_->release();
}

std::map<std::string, uint64_t> Account::holders() {
  const Guard lock(mutex_);
  return by_tag();
}

// The same text may come from several libraries under several addresses.
std::map<std::string, uint64_t> Account::by_tag() const {
  std::map<std::string, uint64_t> held;
  for (const auto& [tag, holder] : holders_) held[tag] += holder.bytes;
  return held;
}

void Account::refuse(size_t bytes, const char* tag, const char* why) const {
  std::string text = "[storage] " + name_ + ": cannot allocate " + std::to_string(bytes) + " bytes";
  if (tag != nullptr) text += std::string(" for ") + tag;
  text += std::string(", ") + why + ": " + std::to_string(used_) + " in use, " +
          std::to_string(pool_->pooled()) + " pooled, limit ";
  text += limit_ == 0 ? "none" : std::to_string(limit_);
  const auto held = by_tag();
  const auto most = std::max_element(held.begin(), held.end(), [](const auto& a, const auto& b) {
    return a.second < b.second;
  });
  if (most != held.end() && most->second > 0) {
    text += "; most is held by " + most->first + " (" + std::to_string(most->second) + ")";
  }
  throw Error(MX_ERROR_MEMORY, text);
}

}  // namespace mx::cuda
