// SPDX-License-Identifier: Apache-2.0
#include "threads.hpp"

#include <sched.h>

#include <algorithm>
#include <cstdlib>

namespace mx::nd {
namespace {

uint32_t from_environment(const char* name) noexcept {
  const char* text = std::getenv(name);
  const long value = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
  return value > 0 ? static_cast<uint32_t>(std::min(value, 1024L)) : 0;
}

uint32_t available() noexcept {
  for (const char* name : {"MXNET_OMP_MAX_THREADS", "OMP_NUM_THREADS"}) {
    if (const uint32_t n = from_environment(name)) return n;
  }
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return 1;
  return static_cast<uint32_t>(std::max(CPU_COUNT(&cores), 1));
}

}  // namespace

uint32_t parallel_threads() noexcept {
  static const uint32_t threads = available();
  return threads;
}

}  // namespace mx::nd
