// SPDX-License-Identifier: Apache-2.0
//
// Arrays of the other workers of a machine, where they lie.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "mx_core/storage.h"

namespace mx::kv {

// Each worker's large arrays of cpu(0) come to lie in one file of its storage manager; the others have mapped all of
// it.
// Threads: one.
class Neighbours {
 public:
  // `sharing` is the table of this worker's storage manager, which `held` keeps.  Maps the files of all workers, this
  // one too; the descriptors stay the caller's.
  // Errors: the system refuses.
  Neighbours(std::shared_ptr<const void> held, const mx_shared_api* sharing, const std::vector<int>& files);
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;
  ~Neighbours();

  int64_t workers() const noexcept { return static_cast<int64_t>(files_.size()); }
  // Where an array of this worker begins in its file, in which it is put if need be; -1 where that cannot be.  Nobody
  // may write it meanwhile.
  int64_t place_of(const void* array) const noexcept;
  // What is there.
  char* at(int64_t worker, int64_t place) const noexcept { return files_[static_cast<size_t>(worker)] + place; }

 private:
  void unmap() noexcept;

  const std::shared_ptr<const void> held_;
  const mx_shared_api* const sharing_;
  size_t span_ = 0;  // bytes of each file
  std::vector<char*> files_;
};

}  // namespace mx::kv
