// SPDX-License-Identifier: Apache-2.0
//
// Writing records.  The file always ends after a whole record as far as this process can see to
// it: what is written goes out in whole records, and where a write fails, records that did not fit are cut off again.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace mx::io {

// Threads: write, flush, tell, written and close may be called from several threads at once.
class RecordWriter {
 public:
  // Keeps so many bytes of the file, whole records, and writes behind them.
  explicit RecordWriter(const std::string& path, uint64_t kept = 0);
  ~RecordWriter();  // closes; errors are lost, so call close()
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  // Appends a record and returns the offset of its head.  At most kMaxPayload bytes.
  uint64_t write(const void* payload, uint64_t bytes);
  void flush();  // hands everything to the operating system
  uint64_t tell();
  uint64_t written();  // bytes of whole records that the file has, also after a failure and once closed
  void close();

 private:
  void append(const void* bytes, size_t count);
  void append_part(uint32_t head, const char* payload, size_t bytes);
  void drain();
  // The mutex; not in a child of a fork, where a thread that it does not have may hold it for ever.
  std::unique_lock<std::mutex> locked();
  void require_open(const std::unique_lock<std::mutex>& lock) const;

  std::mutex mutex_;
  std::string path_;
  pid_t owner_;
  int descriptor_ = -1;
  std::vector<char> pending_;  // whole records once write() has returned
  uint64_t written_ = 0;       // bytes in the file, always at a record's end
  bool failed_ = false;
};

}  // namespace mx::io
