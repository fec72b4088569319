// SPDX-License-Identifier: Apache-2.0
//
// Memory whose surroundings tell of writes outside, for tests of kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace mx::core {

struct FreeDeleter {
  void operator()(void* memory) const noexcept { std::free(memory); }
};
using Memory = std::unique_ptr<void, FreeDeleter>;

// 64-byte aligned, never null; throws std::bad_alloc.
Memory allocate(size_t bytes);

// A part of a memory; ascending parts may leave gaps.
struct Extent {
  size_t offset = 0;
  size_t bytes = 0;
};

// Sections of memory between guards, which are bytes of a known pattern.  The sections are full of NaN, in every
// floating-point type, until somebody writes them.
class GuardedMemory {
 public:
  // Throws std::bad_alloc, and mx::Error for sections that overlap or do not lie within `bytes`.
  explicit GuardedMemory(size_t bytes) : GuardedMemory(bytes, {{0, bytes}}) {}
  GuardedMemory(size_t bytes, std::vector<Extent> sections);

  // 64-byte aligned, as it was given to the constructor.
  char* data() const { return data_; }
  const std::vector<Extent>& sections() const { return sections_; }

  // Writes pattern and NaN anew.
  void fill();

  struct Damage {
    size_t section = 0;
    std::string text;  // "it has 12 bytes and is written up to 4 bytes behind its end"
  };
  // The first write outside of a section, empty where there is none.
  Damage damage() const;

 private:
  struct Guard {
    size_t begin, end;     // offsets in the whole memory
    size_t before, after;  // sections around it; of the outermost the same
  };
  size_t size_;
  std::vector<Extent> sections_;
  std::vector<Guard> guards_;
  Memory memory_;
  char* data_;
};

}  // namespace mx::core
