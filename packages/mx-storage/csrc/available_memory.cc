// SPDX-License-Identifier: Apache-2.0
#include "available_memory.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

namespace mx::storage {
namespace {

constexpr uint64_t kUnknown = UINT64_MAX;

uint64_t difference(uint64_t a, uint64_t b) noexcept { return a > b ? a - b : 0; }

// The file's text; empty where there is none.
std::string text_of(const std::string& path) {
  std::string text;
  if (std::FILE* file = std::fopen(path.c_str(), "re")) {
    char part[4096];
    while (const size_t n = std::fread(part, 1, sizeof part, file)) text.append(part, n);
    std::fclose(file);
  }
  return text;
}

// The number after the first line that begins with `key`; unknown where there is none, as for "max".
uint64_t number_after(const std::string& text, const char* key) {
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    unsigned long long value = 0;
    if (text.compare(at, std::strlen(key), key) == 0 &&
        std::sscanf(text.c_str() + at + std::strlen(key), "%llu", &value) == 1) {
      return value;
    }
    if (text.find('\n', at) == std::string::npos) break;
  }
  return kUnknown;
}

uint64_t machine(const std::string& root) {
  const std::string text = text_of(root + "/proc/meminfo");
  const uint64_t ram = number_after(text, "MemAvailable:"), swap = number_after(text, "SwapFree:");
  if (ram == kUnknown) return kUnknown;
  return (ram + (swap == kUnknown ? 0 : swap)) * 1024;
}

// What one group still allows: its limit without what it uses; files in its cache can be dropped.
uint64_t group(const std::string& folder, const char* limit, const char* usage, const char* cache) {
  const uint64_t most = number_after(text_of(folder + limit), "");
  const uint64_t used = number_after(text_of(folder + usage), "");
  if (most == kUnknown || used == kUnknown) return kUnknown;
  const uint64_t files = number_after(text_of(folder + "/memory.stat"), cache);
  return difference(most, difference(used, files == kUnknown ? 0 : files));
}

// The process's group and all above it, whose limits hold too.
template <class Group>
uint64_t groups(const std::string& mount, std::string path, const Group& allowed) {
  uint64_t least = kUnknown;
  for (;;) {
    least = std::min(least, allowed(mount + path));
    if (path.empty()) return least;
    path.resize(path.find_last_of('/'));
  }
}

// The path after `prefix` in /proc/self/cgroup, without a final slash; `found` tells whether there is one.
std::string group_path(const std::string& text, const char* part, bool* found) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    const size_t at = line.find(part), slash = line.find('/', at == std::string::npos ? 0 : at);
    if (at != std::string::npos && slash != std::string::npos) {
      *found = true;
      std::string path = line.substr(slash);
      if (path == "/") path.clear();
      return path;
    }
    begin = end + 1;
  }
  *found = false;
  return {};
}

uint64_t control_groups(const std::string& root) {
  const std::string text = text_of(root + "/proc/self/cgroup");
  const std::string mount = root + "/sys/fs/cgroup";
  bool found = false;
  const std::string old = group_path(text, ":memory:", &found);
  if (found) {
    return groups(mount + "/memory", old, [](const std::string& folder) {
      return group(folder, "/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file ");
    });
  }
  const std::string path = group_path(text, "0::", &found);
  if (!found) return kUnknown;
  return groups(mount, path, [](const std::string& folder) {
    return group(folder, "/memory.max", "/memory.current", "inactive_file ");
  });
}

}  // namespace

uint64_t available_memory(const char* root) noexcept {
  try {
    return std::min(machine(root), control_groups(root));
  } catch (...) {  // no memory for a path: the allocation itself will tell
    return kUnknown;
  }
}

uint64_t available_memory() noexcept { return available_memory(""); }

}  // namespace mx::storage
