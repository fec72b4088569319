// SPDX-License-Identifier: Apache-2.0
#include "jpeg_header.hpp"

#include <cstring>

namespace mx::io::jpeg {
namespace {

// Bytes of a segment, most significant first; whoever reads behind the end gets zeros and `ok` is false.
struct Bytes {
  const uint8_t* at;
  const uint8_t* end;
  bool ok = true;
  bool little = false;

  size_t left() const { return static_cast<size_t>(end - at); }
  uint32_t number(int bytes) {
    if (left() < static_cast<size_t>(bytes)) {
      ok = false;
      at = end;
      return 0;
    }
    uint32_t value = 0;
    for (int i = 0; i < bytes; ++i) value |= static_cast<uint32_t>(at[i]) << 8 * (little ? i : bytes - 1 - i);
    at += bytes;
    return value;
  }
};

bool read_quantization(Bytes in, Header& header) {
  while (in.left() > 0) {
    const uint32_t head = in.number(1);
    if (head > 3) return false;  // 16-bit steps, or no table
    for (uint16_t& step : header.quantization[head]) step = static_cast<uint16_t>(in.number(1));
    header.quantization_given[head] = true;
  }
  return in.ok;
}

bool read_codes(Bytes in, Header& header) {
  while (in.left() > 0) {
    const uint32_t head = in.number(1);
    if ((head & 0xEF) > 3) return false;
    Codes& codes = (head & 0x10) != 0 ? header.ac[head & 3] : header.dc[head & 3];
    codes = Codes();
    uint32_t total = 0, space = 0;
    for (int i = 0; i < 16; ++i) {
      codes.counts[i] = static_cast<uint8_t>(in.number(1));
      total += codes.counts[i];
      space += static_cast<uint32_t>(codes.counts[i]) << (15 - i);
    }
    if (total > 256 || space > 0x10000) return false;
    for (uint32_t i = 0; i < total; ++i) codes.symbols[i] = static_cast<uint8_t>(in.number(1));
    codes.given = true;
  }
  return in.ok;
}

bool read_frame(Bytes in, Header& header) {
  if (header.count != 0 || in.number(1) != 8) return false;
  header.height = in.number(2), header.width = in.number(2);
  header.count = static_cast<int>(in.number(1));
  if ((header.count != 1 && header.count != 3) || header.width < 8 || header.height < 1) return false;
  for (int c = 0; c < header.count; ++c) {
    Component& component = header.components[c];
    component.id = static_cast<int>(in.number(1));
    const uint32_t sampling = in.number(1);
    component.across = static_cast<int>(sampling >> 4), component.down = static_cast<int>(sampling & 15);
    component.quantization = static_cast<int>(in.number(1));
    if (component.quantization > 3) return false;
  }
  if (!in.ok || in.left() != 0) return false;
  Component* const all = header.components;
  if (header.count == 1) {
    all[0].across = all[0].down = 1;  // the scan of one component is not interleaved
    return true;
  }
  const auto single = [](const Component& component) { return component.across == 1 && component.down == 1; };
  const bool known = (all[0].across == 1 && all[0].down == 1) || (all[0].across == 2 && all[0].down <= 2);
  return known && all[0].down > 0 && single(all[1]) && single(all[2]);
}

bool read_scan(Bytes in, Header& header) {
  if (header.count == 0 || static_cast<int>(in.number(1)) != header.count) return false;
  for (int c = 0; c < header.count; ++c) {
    Component& component = header.components[c];
    if (static_cast<int>(in.number(1)) != component.id) return false;
    const uint32_t tables = in.number(1);
    component.dc = static_cast<int>(tables >> 4), component.ac = static_cast<int>(tables & 15);
    if (component.dc > 3 || component.ac > 3 || !header.dc[component.dc].given || !header.ac[component.ac].given ||
        !header.quantization_given[component.quantization]) {
      return false;
    }
  }
  return in.number(1) == 0 && in.number(1) == 63 && in.number(1) == 0 && in.ok && in.left() == 0;
}

// 1 where there is none, or none that can be read.
int read_orientation(Bytes in) {
  if (in.left() < 14 || std::memcmp(in.at, "Exif\0\0", 6) != 0) return 1;
  in.at += 6;
  const uint8_t* const begin = in.at;
  if (std::memcmp(begin, "II", 2) != 0 && std::memcmp(begin, "MM", 2) != 0) return 1;
  in.little = begin[0] == 'I';
  in.at += 4;
  const uint32_t directory = in.number(4);
  if (directory > static_cast<size_t>(in.end - begin)) return 1;
  in.at = begin + directory;
  for (uint32_t left = in.number(2); left > 0 && in.ok; --left) {
    const uint32_t tag = in.number(2);
    in.number(2), in.number(4);
    const uint32_t value = in.number(2);
    in.number(2);
    if (in.ok && tag == 0x0112) return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace

bool read_header(const uint8_t* data, size_t size, Header& header) {
  header = Header();
  if (size < 4 || std::memcmp(data, "\xFF\xD8", 2) != 0) return false;
  if (std::memcmp(data + size - 2, "\xFF\xD9", 2) != 0) return false;  // cut, or followed by something
  Bytes file{data + 2, data + size};
  bool jfif = false, adobe = false, exif = false;
  while (file.ok) {
    if (file.number(1) != 0xFF) return false;
    const uint32_t marker = file.number(1), length = file.number(2);
    if (!file.ok || length < 2 || length - 2 > file.left()) return false;
    const Bytes segment{file.at, file.at + (length - 2)};
    file.at = segment.end;
    switch (marker) {
      case 0xC0: case 0xC1:
        if (!read_frame(segment, header)) return false;
        break;
      case 0xC4:
        if (!read_codes(segment, header)) return false;
        break;
      case 0xDB:
        if (!read_quantization(segment, header)) return false;
        break;
      case 0xDD: {
        Bytes in = segment;
        header.restart = static_cast<int>(in.number(2));
        if (!in.ok || in.left() != 0) return false;
        break;
      }
      case 0xDA: {
        const Component* const all = header.components;
        const bool counted = all[0].id == 1 && all[1].id == 2 && all[2].id == 3;
        if (!read_scan(segment, header) || (header.count == 3 && !jfif && (adobe || !counted))) return false;
        header.scan = segment.end, header.end = file.end;
        return true;
      }
      case 0xE0:
        jfif = jfif || (segment.left() >= 14 && std::memcmp(segment.at, "JFIF\0", 5) == 0);
        break;
      case 0xE1:
        if (!exif && segment.left() >= 6 && std::memcmp(segment.at, "Exif\0\0", 6) == 0) {
          exif = true;
          header.orientation = read_orientation(segment);
        }
        break;
      case 0xEE:
        adobe = true;
        break;
      default:  // other application data and comments
        if (marker != 0xFE && (marker < 0xE2 || marker > 0xEF)) return false;
    }
  }
  return false;
}

}  // namespace mx::io::jpeg
