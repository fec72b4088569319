// SPDX-License-Identifier: Apache-2.0
#include "guarded_memory.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "mx_core/failure.hpp"

namespace mx::core {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kGuard = 4096;  // bytes on each side

uint8_t pattern(size_t i) { return static_cast<uint8_t>(0x5a + 29 * i); }

std::string in_bytes(size_t n) { return std::to_string(n) + (n == 1 ? " byte" : " bytes"); }

size_t total(size_t bytes) {
  if (bytes > SIZE_MAX - 2 * kGuard) throw std::bad_alloc();
  return bytes + 2 * kGuard;
}

}  // namespace

Memory allocate(size_t bytes) {
  if (bytes > SIZE_MAX - kAlignment) throw std::bad_alloc();
  const size_t rounded = (std::max<size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  Memory memory(std::aligned_alloc(kAlignment, rounded));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

GuardedMemory::GuardedMemory(size_t bytes, std::vector<Extent> sections)
    : size_(total(bytes)),
      sections_(std::move(sections)),
      memory_(allocate(size_)),
      data_(static_cast<char*>(memory_.get()) + kGuard) {
  size_t end = 0;  // of the sections so far
  for (size_t i = 0; i < sections_.size(); ++i) {
    const Extent& section = sections_[i];
    if (section.offset < end || section.offset > bytes || section.bytes > bytes - section.offset)
      throw Error(MX_ERROR_ABI, "section " + std::to_string(i) + " at " + std::to_string(section.offset) + " of " +
                                    std::to_string(section.bytes) + " bytes overlaps another or exceeds " +
                                    std::to_string(bytes) + " bytes");
    guards_.push_back({i == 0 ? 0 : kGuard + end, kGuard + section.offset, i == 0 ? 0 : i - 1, i});
    end = section.offset + section.bytes;
  }
  const size_t last = sections_.empty() ? 0 : sections_.size() - 1;
  guards_.push_back({kGuard + end, size_, last, last});
  fill();
}

void GuardedMemory::fill() {
  auto* bytes = static_cast<uint8_t*>(memory_.get());
  std::memset(bytes, 0xff, size_);
  for (const Guard& guard : guards_)
    for (size_t i = guard.begin; i < guard.end; ++i) bytes[i] = pattern(i);
}

GuardedMemory::Damage GuardedMemory::damage() const {
  const auto* bytes = static_cast<const uint8_t*>(memory_.get());
  for (const Guard& guard : guards_) {
    size_t first = guard.begin, last = guard.end;
    while (first < last && bytes[first] == pattern(first)) ++first;
    if (first == last) continue;
    while (bytes[last - 1] == pattern(last - 1)) --last;
    // what lies between two sections belongs to the nearer one
    const bool behind = guard.begin != 0 && (guard.end == size_ || first - guard.begin <= guard.end - last);
    const size_t section = behind ? guard.before : guard.after;
    const size_t size = sections_.empty() ? 0 : sections_[section].bytes;
    const size_t farthest = behind ? last - guard.begin : guard.end - first;
    return {section, "it has " + in_bytes(size) + " and is written up to " + in_bytes(farthest) +
                         (behind ? " behind its end" : " before its beginning")};
  }
  return {};
}

}  // namespace mx::core
