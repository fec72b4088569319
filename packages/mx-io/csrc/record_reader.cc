// SPDX-License-Identifier: Apache-2.0
#include "record_reader.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

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

RecordExtent locate_record(ByteSource& source, uint64_t offset) {
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

// The first record head at or after `offset` (a multiple of four), or the end of the file.
uint64_t next_head(File& file, uint64_t offset) {
  const uint64_t size = file.size();
  constexpr size_t kStep = 64 * 1024;
  std::vector<uint32_t> words(kStep / sizeof(uint32_t) + 1);  // one more: a head may straddle
  for (; offset + kHeadBytes <= size; offset += kStep) {
    const size_t bytes = file.fetch_some(offset, words.data(), words.size() * sizeof(uint32_t));
    const size_t count = bytes / sizeof(uint32_t);
    for (size_t i = 0; i + 1 < count; ++i) {
      if (words[i] == kMagic && part_flag(words[i + 1]) <= static_cast<uint32_t>(Part::kFirst)) {
        return offset + i * sizeof(uint32_t);
      }
    }
  }
  return size;
}

}  // namespace

std::pair<uint64_t, uint64_t> part_range(File& file, uint64_t index, uint64_t count) {
  const uint64_t size = file.size();
  const uint64_t share = aligned(size / count + (size % count != 0));
  const auto border = [&](uint64_t part) -> uint64_t {
    if (part == 0) return 0;
    if (share != 0 && part > size / share) return size;
    const uint64_t offset = std::min(size, part * share);
    return offset == size ? size : next_head(file, offset);
  };
  return {border(index), border(index + 1)};
}

std::vector<uint64_t> record_offsets(File& file, uint64_t begin, uint64_t end) {
  Window window(file, 16 * 1024);
  std::vector<uint64_t> offsets;
  for (uint64_t offset = begin; offset < end;) {
    const RecordExtent extent = locate_record(window, offset);
    offsets.push_back(offset);
    offset = extent.end;
  }
  return offsets;
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
