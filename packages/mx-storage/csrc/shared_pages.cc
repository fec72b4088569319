// SPDX-License-Identifier: Apache-2.0
#include "shared_pages.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

namespace mx::storage {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;  // nobody cuts off what another one reads
constexpr uint64_t kHugePage = uint64_t{2} << 20;

bool write_all(int file, const char* from, size_t bytes, uint64_t at) noexcept {
  while (bytes > 0) {
    const ssize_t written = ::pwrite(file, from, bytes, static_cast<off_t>(at));
    if (written <= 0) return false;
    from += written;
    bytes -= static_cast<size_t>(written);
    at += static_cast<uint64_t>(written);
  }
  return true;
}

// Pages of the file instead of those that are there; false where the system refuses, which leaves those that are there.
bool map_here(void* data, size_t bytes, int kind, int file, uint64_t offset) noexcept {
  constexpr int kAccess = PROT_READ | PROT_WRITE;
  if (::mmap(data, bytes, kAccess, kind | MAP_FIXED, file, static_cast<off_t>(offset)) != MAP_FAILED) return true;
  unsigned char state = 0;
  if (::mincore(data, 1, &state) != 0) std::abort();  // the system has taken the pages away before it refused
  return false;
}

// The file's offsets as addresses, for what hands out parts of memory that it never touches.
void* as_address(uint64_t offset) noexcept { return reinterpret_cast<void*>(offset); }

}  // namespace

SharedPages::~SharedPages() {
  delist(this);
  if (file_ >= 0) ::close(file_);
}

bool SharedPages::open() noexcept {
  if (file_ >= 0) return true;
  const int file = ::memfd_create("mx_storage", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  struct stat found {};
  if (file < 0) return false;
  if (::fstat(file, &found) != 0 || ::ftruncate(file, static_cast<off_t>(span_)) != 0 ||
      ::fcntl(file, F_ADD_SEALS, kSeals) != 0 || !free_all()) {
    ::close(file);
    return false;
  }
  file_ = file;
  inode_ = found.st_ino;
  return true;
}

// But for the first huge page: no address is NULL.
bool SharedPages::free_all() noexcept {
  try {
    free_ = BestFit();
    free_.add(as_address(kHugePage), span_ - kHugePage);
    return true;
  } catch (...) {
    return false;
  }
}

mx_segment SharedPages::file() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  return {sizeof(mx_segment), open() ? file_ : -1, span_, inode_, 0};
}

int64_t SharedPages::share(void* data, size_t bytes) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = places_.find(data);
  if (found != places_.end()) return static_cast<int64_t>(found->second.offset);
  if (!open()) return -1;
  const size_t taken = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  Place place{0, bytes};
  try {
    place.offset = reinterpret_cast<uint64_t>(free_.take(taken));
    if (place.offset == 0) return -1;
    places_.emplace(data, place);
  } catch (...) {  // no memory for the entry
    if (place.offset != 0) free_.give(as_address(place.offset));
    return -1;
  }
  if (!put(data, place)) {
    forget_place(places_.find(data));
    return -1;
  }
  return static_cast<int64_t>(place.offset);
}

bool SharedPages::put(void* data, const Place& place) noexcept {
  // A page that cannot be had later would end the process.
  return ::fallocate(file_, 0, static_cast<off_t>(place.offset), static_cast<off_t>(place.bytes)) == 0 &&
         write_all(file_, static_cast<const char*>(data), place.bytes, place.offset) &&
         map_here(data, place.bytes, MAP_SHARED, file_, place.offset);
}

void SharedPages::forget(void* data) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = places_.find(data);
  if (found != places_.end()) forget_place(found);
}

void SharedPages::forget_place(Places::iterator found) noexcept {
  const auto [offset, bytes] = found->second;
  constexpr int kHole = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  ::fallocate(file_, kHole, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  free_.give(as_address(offset));
  places_.erase(found);
}

void SharedPages::lock_for_fork() noexcept {
  mutex_.lock();
  process_ = ::getpid();
}

void SharedPages::unlock_after_fork() noexcept {
  if (::getpid() != process_) {
    for (const auto& [data, place] : places_) {
      if (!map_here(data, place.bytes, MAP_PRIVATE, file_, place.offset)) std::abort();  // it would write the parent's
    }
    places_.clear();
    if (file_ >= 0) ::close(file_);
    file_ = -1;
  }
  mutex_.unlock();
}

}  // namespace mx::storage
