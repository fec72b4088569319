// SPDX-License-Identifier: Apache-2.0
#include "record_reader.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "errors.hpp"
#include "record_format.hpp"

namespace mx::io {
namespace {

struct PartHead {
  Part part;
  uint32_t length;
};

std::string hexadecimal(uint32_t word) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", word);
  return text;
}

std::string bytes_left(ByteSource& source, uint64_t offset) {
  const uint64_t size = source.size();
  return std::to_string(size > offset ? size - offset : 0) + " before the end of the file";
}

PartHead read_head(ByteSource& source, uint64_t offset) {
  if (!source.holds(offset, kHeadBytes)) {
    throw FormatError(source.path(), offset, "a record head of 8 bytes", bytes_left(source, offset));
  }
  uint32_t words[2];
  source.fetch(offset, words, sizeof words);
  if (words[0] != kMagic) {
    throw FormatError(source.path(), offset, "the record magic " + hexadecimal(kMagic),
                      hexadecimal(words[0]) + "; the file is damaged here or is no RecordIO file");
  }
  const uint32_t flag = part_flag(words[1]);
  if (flag > static_cast<uint32_t>(Part::kLast)) {
    throw FormatError(source.path(), offset, "a part flag from 0 to 3", std::to_string(flag));
  }
  return {static_cast<Part>(flag), part_length(words[1])};
}

}  // namespace

RecordExtent locate_record(ByteSource& source, uint64_t offset, uint64_t limit) {
  RecordExtent extent;
  extent.offset = extent.end = offset;
  for (;;) {
    const PartHead head = read_head(source, extent.end);
    const bool starts = head.part == Part::kWhole || head.part == Part::kFirst;
    if (starts != (extent.parts == 0)) {
      throw FormatError(source.path(), extent.end,
                        starts ? "a following part of the record (flag 2 or 3)"
                               : "the beginning of a record (flag 0 or 1)",
                        "flag " + std::to_string(static_cast<uint32_t>(head.part)));
    }
    const uint64_t payload_at = extent.end + kHeadBytes;
    if (!source.holds(payload_at, aligned(head.length))) {
      throw FormatError(source.path(), payload_at,
                        std::to_string(aligned(head.length)) + " bytes of payload",
                        bytes_left(source, payload_at));
    }
    extent.payload += head.length + (extent.parts == 0 ? 0 : sizeof kMagic);
    extent.end = payload_at + aligned(head.length);
    ++extent.parts;
    if (extent.end > limit) {
      throw FormatError(source.path(), offset, "a record of at most " + std::to_string(limit - offset) + " bytes",
                        std::to_string(extent.end - offset) + " or more; another one begins before its end");
    }
    if (head.part == Part::kWhole || head.part == Part::kLast) return extent;
  }
}

void read_record(ByteSource& source, const RecordExtent& extent, void* out) {
  if (extent.parts == 1) {
    source.fetch(extent.offset + kHeadBytes, out, extent.payload);
    return;
  }
  auto* cursor = static_cast<char*>(out);
  uint64_t left = extent.payload;
  uint64_t offset = extent.offset;
  for (uint32_t part = 0; part < extent.parts; ++part) {
    const PartHead head = read_head(source, offset);
    const uint64_t joint = part == 0 ? 0 : sizeof kMagic;
    if (head.length + joint > left) {  // only if the file changed since it was located
      throw FormatError(source.path(), offset, "at most " + std::to_string(left) + " bytes",
                        std::to_string(head.length) + "; the file changed while it was read");
    }
    std::memcpy(cursor, &kMagic, joint);
    source.fetch(offset + kHeadBytes, cursor + joint, head.length);
    cursor += joint + head.length;
    left -= joint + head.length;
    offset += kHeadBytes + aligned(head.length);
  }
  if (left != 0) {
    throw FormatError(source.path(), extent.offset, std::to_string(extent.payload) + " bytes",
                      std::to_string(extent.payload - left) + "; the file changed while it was read");
  }
}

namespace {

constexpr size_t kRecordsPerPause = 1024;

// Finds beginnings of records; keeps the words that it has read, for the next search.
class HeadFinder {
 public:
  explicit HeadFinder(File& file, Pause pause = [] {})
      : file_(file), pause_(std::move(pause)), size_(file.size()), words_(kStep / sizeof(uint32_t) + 1) {}

  // The first record head at or after `offset` (a multiple of four), or the end of the file.
  uint64_t next(uint64_t offset) {
    while (offset + kHeadBytes <= size_) {
      if (offset < start_ || offset + kHeadBytes > start_ + count_ * sizeof(uint32_t)) {
        pause_();
        start_ = offset;
        count_ = file_.fetch_some(offset, words_.data(), words_.size() * sizeof(uint32_t)) / sizeof(uint32_t);
        if (count_ < 2) break;
      }
      for (size_t i = (offset - start_) / sizeof(uint32_t); i + 1 < count_; ++i) {
        if (words_[i] == kMagic && part_flag(words_[i + 1]) <= static_cast<uint32_t>(Part::kFirst)) {
          return start_ + i * sizeof(uint32_t);
        }
      }
      offset = start_ + (count_ - 1) * sizeof(uint32_t);  // a head may straddle
    }
    return size_;
  }

 private:
  static constexpr size_t kStep = 64 * 1024;
  File& file_;
  Pause pause_;
  uint64_t size_;
  std::vector<uint32_t> words_;
  uint64_t start_ = 0;
  size_t count_ = 0;
};

}  // namespace

std::pair<uint64_t, uint64_t> part_range(File& file, uint64_t index, uint64_t count) {
  const uint64_t size = file.size();
  const uint64_t share = aligned(size / count + (size % count != 0));
  const auto border = [&](uint64_t part) -> uint64_t {
    if (part == 0) return 0;
    if (share != 0 && part > size / share) return size;
    const uint64_t offset = std::min(size, part * share);
    return offset == size ? size : HeadFinder(file).next(offset);
  };
  return {border(index), border(index + 1)};
}

std::vector<uint64_t> record_offsets(File& file, uint64_t begin, uint64_t end, const Pause& pause) {
  Window window(file, 16 * 1024);
  std::vector<uint64_t> offsets;
  for (uint64_t offset = begin; offset < end;) {
    const RecordExtent extent = locate_record(window, offset);
    offsets.push_back(offset);
    offset = extent.end;
    if (offsets.size() % kRecordsPerPause == 0) pause();
  }
  return offsets;
}

Scan scan_records(File& file, uint64_t begin, uint64_t end, const Pause& pause) {
  Window window(file, 16 * 1024);
  HeadFinder heads(file, pause);
  Scan scan;
  for (uint64_t offset = begin; offset < end;) {
    const uint64_t following = heads.next(aligned(offset) + sizeof kMagic);
    try {
      const RecordExtent extent = locate_record(window, offset, following);
      scan.offsets.push_back(offset);
      offset = extent.end;
    } catch (const FormatError& error) {
      scan.damages.push_back({offset, following, error.what()});
      offset = following;
    }
  }
  return scan;
}

std::optional<RecordExtent> RecordReader::locate_next() {
  if (!window_.holds(position_, 1)) return std::nullopt;
  return locate_record(window_, position_);
}

void RecordReader::read_next(const RecordExtent& extent, void* out) {
  read_record(window_, extent, out);
  position_ = extent.end;
}

}  // namespace mx::io
