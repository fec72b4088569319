// SPDX-License-Identifier: Apache-2.0
//
// Memory of a GPU for a while, from whoever manages it.
#pragma once

#include <cstddef>

#include "mx_core/failure.hpp"
#include "mx_core/storage.h"

namespace mx::cuda {

// Memory of a context, aligned to at least 64 bytes, under the name `tag`.  Throws mx::Error.
inline mx_block allocated(const mx_storage_api& storage, mx_context context, size_t bytes, const char* tag) {
  mx_block block{};
  mx_error error{};
  const int32_t status = storage.alloc(storage.self, context, bytes, tag, &block, &error);
  if (status != MX_OK) throw Error(static_cast<mx_status>(status), error.message);
  return block;
}

// Memory that goes back with this.  Threads: one.
class Lent {
 public:
  Lent(const mx_storage_api& storage, mx_context context, size_t bytes, const char* tag)
      : storage_(storage), block_(allocated(storage, context, bytes, tag)) {}
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;
  ~Lent() { storage_.free(storage_.self, &block_); }
  const mx_block& block() const noexcept { return block_; }

 private:
  const mx_storage_api& storage_;
  const mx_block block_;
};

}  // namespace mx::cuda
