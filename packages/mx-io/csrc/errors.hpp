// SPDX-License-Identifier: Apache-2.0
//
// What can be wrong with a file: its content (FormatError) or the system's answer (FileError).
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace mx::io {

// The content of `path` at byte `offset` is not what the format demands.
class FormatError : public std::runtime_error {
 public:
  FormatError(const std::string& path, uint64_t offset, const std::string& expected,
              const std::string& got)
      : std::runtime_error("[RecordIO] " + path + ": at byte " + std::to_string(offset) +
                           ": expected " + expected + ", got " + got) {}
};

// A system call on `path` failed with `code` (an errno value).
class FileError : public std::runtime_error {
 public:
  FileError(std::string path, int code, const std::string& action);
  int code() const noexcept { return code_; }
  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
  int code_;
};

}  // namespace mx::io
