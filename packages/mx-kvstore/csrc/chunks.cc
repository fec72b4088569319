// SPDX-License-Identifier: Apache-2.0
#include "chunks.hpp"

#include "mx_core/abi.h"
#include "mx_core/types.hpp"
#include "sum.hpp"

namespace mx::kv {
namespace {

constexpr size_t kLine = 64;         // bytes: pieces and parts begin at multiples
constexpr size_t kStream = 1 << 20;  // bytes of an item from which its targets are written past the caches

void sum_or_any(int32_t dtype, const std::vector<const void*>& sources, const std::vector<void*>& targets, size_t bytes,
                size_t cached) {
  if (dtype == MX_BOOL) {
    for (size_t i = 0; i < bytes; ++i) {
      bool any = false;
      for (const void* source : sources) any = any || static_cast<const char*>(source)[i] != 0;
      for (void* target : targets) static_cast<char*>(target)[i] = any ? 1 : 0;
    }
    return;
  }
  sum_unfenced(dtype, sources, targets, 0, static_cast<int64_t>(bytes / item_size(dtype)), cached);
}

}  // namespace

std::vector<Chunk> chunks_of(const std::vector<Item>& items, size_t bytes, size_t codes) {
  std::vector<Chunk> chunks;
  for (size_t i = 0; i < items.size(); ++i) {
    const Item& item = items[i];
    const size_t most = item.kind == Kind::kCodes ? codes : bytes;
    for (size_t from = 0; from < item.bytes;) {
      const size_t filled = chunks.empty() ? 0 : (chunks.back().bytes + kLine - 1) / kLine * kLine;
      const bool joins = !chunks.empty() && item.kind == Kind::kSum && chunks.back().kind == Kind::kSum &&
                         chunks.back().dtype == item.dtype && filled < most;
      if (!joins) chunks.push_back({item.kind, item.dtype, 0, {}});
      const size_t at = joins ? filled : 0;
      const size_t fits = std::min(item.bytes - from, most - at);
      chunks.back().pieces.push_back({i, from, fits, at, from + fits == item.bytes});
      chunks.back().bytes = at + fits;
      from += fits;
    }
  }
  return chunks;
}

size_t begin_of(int64_t worker, int64_t workers, size_t bytes) noexcept {
  if (worker == workers) return bytes;
  return bytes / kLine * static_cast<size_t>(worker) / static_cast<size_t>(workers) * kLine;
}

bool Adder::streams(const Piece& piece) const noexcept { return items_[piece.item].bytes >= kStream; }

void Adder::find_targets(const Piece& piece, size_t offset, size_t n) {
  const Item& item = items_[piece.item];
  for (; n < item.targets.size(); ++n) {
    targets_.push_back(static_cast<char*>(item.targets[n]) + piece.from + offset);
  }
}

void Adder::add(const Piece& piece, size_t offset, size_t bytes, const std::vector<const void*>& sources, void* first,
                size_t n, size_t cached) {
  targets_.clear();
  if (first != nullptr) targets_.push_back(first);
  find_targets(piece, offset, n);
  sum_or_any(items_[piece.item].dtype, sources, targets_, bytes, streams(piece) ? cached : targets_.size());
}

void Adder::deliver(const Piece& piece, size_t offset, size_t bytes, const char* from, size_t n) {
  targets_.clear();
  find_targets(piece, offset, n);
  if (targets_.empty()) return;
  source_.assign(1, from);
  sum_unfenced(MX_UINT8, source_, targets_, 0, static_cast<int64_t>(bytes), streams(piece) ? 0 : targets_.size());
}

}  // namespace mx::kv
