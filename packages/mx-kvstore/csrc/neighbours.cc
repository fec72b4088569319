// SPDX-License-Identifier: Apache-2.0
#include "neighbours.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "mx_core/failure.hpp"

namespace mx::kv {

Neighbours::Neighbours(std::shared_ptr<const void> held, const mx_shared_api* sharing, const std::vector<int>& files)
    : held_(std::move(held)), sharing_(sharing) {
  mx_segment mine{};
  mx_error error{};
  check(sharing_->segment(sharing_->self, nullptr, &mine, &error), error);
  span_ = mine.bytes;
  for (const int file : files) {
    void* memory = mmap(nullptr, span_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (memory == MAP_FAILED) {
      const std::string why = std::strerror(errno);
      unmap();
      throw Error(MX_ERROR, "[KVStore] arrays of other workers: mmap: " + why);
    }
    files_.push_back(static_cast<char*>(memory));
    madvise(memory, span_, MADV_DONTFORK);
    madvise(memory, span_, MADV_DONTDUMP);  // a core dump would have the system make every page of the span
  }
}

Neighbours::~Neighbours() { unmap(); }

void Neighbours::unmap() noexcept {
  for (char* memory : files_) munmap(memory, span_);
}

int64_t Neighbours::place_of(const void* array) const noexcept {
  mx_segment found{};
  mx_error error{};
  if (sharing_->segment(sharing_->self, array, &found, &error) != MX_OK) return -1;
  return static_cast<int64_t>(found.offset);
}

}  // namespace mx::kv
