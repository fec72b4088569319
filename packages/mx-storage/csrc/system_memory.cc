// SPDX-License-Identifier: Apache-2.0
#include "system_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#include "size_class.hpp"

namespace mx::storage {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kHugeFrom = size_t{4} << 20;
constexpr size_t kCheckedFrom = size_t{256} << 20;  // asking takes as long as clearing a few pages

void* map(size_t bytes) noexcept {
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return data == MAP_FAILED ? nullptr : data;
}

}  // namespace

void* heap_alloc(size_t bytes) noexcept {
  void* data = nullptr;
  return ::posix_memalign(&data, kAlignment, bytes) == 0 ? data : nullptr;
}

void heap_free(void* data) noexcept { std::free(data); }

size_t whole_pages(size_t bytes) noexcept {
  static const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

bool can_be_written(size_t bytes, uint64_t (*available)() noexcept) noexcept {
  return bytes < kCheckedFrom || bytes <= available();
}

void* map_pages(size_t bytes) noexcept {
  const size_t length = whole_pages(bytes);
  if (length < kHugeFrom) return map(length);
  if (!can_be_written(length)) return nullptr;
  auto* raw = static_cast<char*>(map(length + kHugePage));
  if (raw == nullptr) return nullptr;
  const size_t ahead = (kHugePage - reinterpret_cast<uintptr_t>(raw) % kHugePage) % kHugePage;
  if (ahead != 0) ::munmap(raw, ahead);
  ::munmap(raw + ahead + length, kHugePage - ahead);
#ifdef MADV_HUGEPAGE
  ::madvise(raw + ahead, length, MADV_HUGEPAGE);  // advice: it may be refused
#endif
  return raw + ahead;
}

void unmap_pages(void* data, size_t bytes) noexcept { ::munmap(data, whole_pages(bytes)); }

}  // namespace mx::storage
