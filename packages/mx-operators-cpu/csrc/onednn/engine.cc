// SPDX-License-Identifier: Apache-2.0
#include "onednn/engine.hpp"

#include <sys/mman.h>

#include <string>

#include "mx_core/failure.hpp"

namespace mx::cpu {
namespace {

constexpr size_t kHeadroom = size_t{16} << 20;  // several times what a description and its code take

}  // namespace

const dnnl::engine& cpu_engine() {
  static const auto* engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

// Address space is what limits and the kernel's accounting refuse; untouched pages cost nothing.
const dnnl::engine& describing_engine() {
  void* room = mmap(nullptr, kHeadroom, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED)
    throw Error(MX_ERROR_MEMORY, "[mx-operators-cpu] out of memory: less than " + std::to_string(kHeadroom >> 20) +
                                     " MiB are left to prepare a kernel");
  munmap(room, kHeadroom);
  return cpu_engine();
}

}  // namespace mx::cpu
