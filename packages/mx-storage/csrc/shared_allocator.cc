// SPDX-License-Identifier: Apache-2.0
#include "shared_allocator.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "available_memory.hpp"
#include "mx_core/failure.hpp"
#include "system_memory.hpp"

namespace mx::storage {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr size_t kCheckedFrom = size_t{256} << 20;

[[noreturn]] void refuse(int fd, const std::string& why) {
  throw Error(MX_ERROR_VALUE, "[storage] descriptor " + std::to_string(fd) + ": " + why);
}

}  // namespace

SharedAllocator::~SharedAllocator() {
  for (const auto& [data, mapping] : mappings_) {
    ::munmap(const_cast<char*>(data), mapping.length);
    ::close(mapping.fd);
  }
}

void* SharedAllocator::alloc(size_t bytes) noexcept {
  allocations_.fetch_add(1, std::memory_order_relaxed);
  if (bytes >= kCheckedFrom && bytes > available_memory()) return nullptr;
  const int fd = ::memfd_create("mx_storage", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return nullptr;
  if (::ftruncate(fd, static_cast<off_t>(whole_pages(bytes))) != 0 || ::fcntl(fd, F_ADD_SEALS, kSeals) != 0) {
    ::close(fd);
    return nullptr;
  }
  return map(fd, bytes);
}

void* SharedAllocator::map(int fd, size_t bytes) noexcept {
  const size_t length = whole_pages(bytes);
  void* data = MAP_FAILED;
  struct stat found {};
  if (::fstat(fd, &found) == 0) data = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data != MAP_FAILED) {
    try {
      const Guard lock(mutex_);
      mappings_[static_cast<char*>(data)] = {fd, length, found.st_ino};
      return data;
    } catch (...) {  // no memory for the entry
      ::munmap(data, length);
    }
  }
  ::close(fd);
  return nullptr;
}

void SharedAllocator::free(void* data, size_t) noexcept {
  const Guard lock(mutex_);
  const auto found = mappings_.find(static_cast<char*>(data));
  if (found == mappings_.end()) return;
  ::munmap(data, found->second.length);
  ::close(found->second.fd);
  mappings_.erase(found);
}

mx_segment SharedAllocator::segment(const void* data) const {
  const auto* at = static_cast<const char*>(data);
  const Guard lock(mutex_);
  auto next = mappings_.upper_bound(at);
  if (next != mappings_.begin()) {
    const auto& [begin, mapping] = *--next;
    if (at < begin + mapping.length) {
      return {sizeof(mx_segment), mapping.fd, mapping.length, mapping.inode, static_cast<uint64_t>(at - begin)};
    }
  }
  throw Error(MX_ERROR_VALUE, "[storage] this memory is not shared between processes");
}

void* SharedAllocator::attach(int fd, size_t bytes) {
  struct stat found {};
  if (::fstat(fd, &found) != 0) refuse(fd, std::strerror(errno));
  // Only what can never become smaller is safe to read: a missing page would kill the reader.
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) refuse(fd, "expected memory shared by a storage manager");
  if (static_cast<uint64_t>(found.st_size) < bytes) {
    refuse(fd, "expected a segment of at least " + std::to_string(bytes) + " bytes, got one of " +
                   std::to_string(found.st_size));
  }
  const int own = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) refuse(fd, std::strerror(errno));
  void* data = map(own, bytes);
  if (data == nullptr) throw Error(MX_ERROR_MEMORY, "[storage] a shared segment cannot be mapped");
  return data;
}

}  // namespace mx::storage
