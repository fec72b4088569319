// SPDX-License-Identifier: Apache-2.0
//
// Reading records: where a record lies (checked before any memory is taken for it), its payload,
// the heads of all records in a range, and the byte range of one of N parts.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "byte_source.hpp"

namespace mx::io {

struct RecordExtent {
  uint64_t offset = 0;   // of the first part's magic
  uint64_t end = 0;      // of the next record
  uint64_t payload = 0;  // bytes, magics between parts included
  uint32_t parts = 0;
};

// The record whose magic lies at `offset`; FormatError when there is none, or when it ends beyond `limit`, which its
// first part beyond tells.  The payload is known to lie in the file, so `extent.payload` is bounded by the file's size.
RecordExtent locate_record(ByteSource& source, uint64_t offset, uint64_t limit = std::numeric_limits<uint64_t>::max());

// Copies the payload (extent.payload bytes) to `out`.
void read_record(ByteSource& source, const RecordExtent& extent, void* out);

// Byte range [begin, end) of part `index` of `count`: equal shares rounded up to a multiple of
// four, both ends moved forward to a record's head.  The parts cover the file without overlap.
std::pair<uint64_t, uint64_t> part_range(File& file, uint64_t index, uint64_t count);

// Called now and then by what may take long; it throws to end that.
using Pause = std::function<void()>;

// Offsets of the records that begin in [begin, end).
std::vector<uint64_t> record_offsets(File& file, uint64_t begin, uint64_t end, const Pause& pause = [] {});

// Bytes [begin, end) of a file that belong to no intact record.
struct Damage {
  uint64_t begin = 0;
  uint64_t end = 0;
  std::string reason;
};

struct Scan {
  std::vector<uint64_t> offsets;  // of the intact records
  std::vector<Damage> damages;
};

// The intact records that begin in [begin, end), and what lies between them.  Reads every byte: an aligned magic begins
// a part, so a record whose length reaches beyond the next beginning of a record is damaged.  The time is linear in the bytes, whatever they are.
Scan scan_records(File& file, uint64_t begin, uint64_t end, const Pause& pause = [] {});

// A file and a position in it.
// Threads: `file()` may be used by several threads at once; the position is guarded by `mutex()`.
class RecordReader {
 public:
  explicit RecordReader(const std::string& path) : file_(path), window_(file_) {}
  File& file() { return file_; }
  std::mutex& mutex() { return mutex_; }
  ByteSource& window() { return window_; }  // hold the mutex

  // The record at the position, or nothing at the end of the file.  Hold the mutex.
  std::optional<RecordExtent> locate_next();
  // Reads what locate_next gave and moves after it.  Hold the mutex.
  void read_next(const RecordExtent& extent, void* out);
  void seek(uint64_t offset) { position_ = offset; }
  uint64_t position() const { return position_; }

 private:
  File file_;
  Window window_;
  uint64_t position_ = 0;
  std::mutex mutex_;
};

}  // namespace mx::io
