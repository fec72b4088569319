// SPDX-License-Identifier: Apache-2.0
//
// Random access to the bytes of a regular file, with and without a window of buffered bytes.
// Files are read with pread, not mapped: a file that another process cuts short is an error here
// and not a bus error.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mx::io {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Copies bytes [offset, offset + count) to `out`; FormatError when the file ends before.
  virtual void fetch(uint64_t offset, void* out, size_t count) = 0;
  // True when [offset, offset + count) lies in the file.
  virtual bool holds(uint64_t offset, uint64_t count) = 0;
  virtual uint64_t size() = 0;
  virtual const std::string& path() const = 0;
};

// Threads: every function may be called from several threads at once.
class File final : public ByteSource {
 public:
  explicit File(const std::string& path);
  ~File() override;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void fetch(uint64_t offset, void* out, size_t count) override;
  bool holds(uint64_t offset, uint64_t count) override;
  uint64_t size() override;  // now: a file may grow while it is read
  const std::string& path() const override { return path_; }
  // As many of `count` bytes as the file has at `offset`.
  size_t fetch_some(uint64_t offset, void* out, size_t count);

 private:
  std::string path_;
  int descriptor_ = -1;
  std::atomic<uint64_t> size_{0};
};

// Reads ahead, for walking through a file of small records.  One thread at a time.
class Window final : public ByteSource {
 public:
  explicit Window(File& file, size_t capacity = 64 * 1024) : file_(file), bytes_(capacity) {}
  void fetch(uint64_t offset, void* out, size_t count) override;
  bool holds(uint64_t offset, uint64_t count) override;
  uint64_t size() override { return file_.size(); }
  const std::string& path() const override { return file_.path(); }

 private:
  File& file_;
  std::vector<char> bytes_;
  uint64_t start_ = 0;
  size_t filled_ = 0;
};

}  // namespace mx::io
