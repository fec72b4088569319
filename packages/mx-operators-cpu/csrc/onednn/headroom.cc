// SPDX-License-Identifier: Apache-2.0
#include "onednn/headroom.hpp"

#include <sys/mman.h>

#include "mx_core/failure.hpp"

namespace mx::cpu {
namespace {

constexpr size_t kHeadroom = size_t{16} << 20;  // several times what a description and its code take

}  // namespace

// Address space is what limits and the kernel's accounting refuse; untouched pages cost nothing.
void require_headroom() {
  void* room = mmap(nullptr, kHeadroom, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED)
    throw Error(MX_ERROR_MEMORY, "[mx-operators-cpu] out of memory: less than " + std::to_string(kHeadroom >> 20) +
                                     " MiB are left to prepare a kernel");
  munmap(room, kHeadroom);
}

}  // namespace mx::cpu
