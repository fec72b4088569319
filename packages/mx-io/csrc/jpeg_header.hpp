// SPDX-License-Identifier: Apache-2.0
//
// What a JPEG file says before its pixels (ITU-T T.81, annex B), as far as the decoder here takes it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mx::io::jpeg {

struct Component {
  int id = 0, across = 1, down = 1;  // blocks in a minimum coded unit
  int quantization = 0, dc = 0, ac = 0;
};

// Codes of each length, and what they stand for in this order.
struct Codes {
  bool given = false;
  uint8_t counts[16] = {};
  uint8_t symbols[256] = {};
};

struct Header {
  int64_t width = 0, height = 0;
  int count = 0;  // components: 1 or 3
  Component components[3];
  uint16_t quantization[4][64] = {};  // in zigzag order
  bool quantization_given[4] = {};
  Codes dc[4], ac[4];
  int restart = 0;      // units between two restart markers; 0 without
  int orientation = 1;  // of the EXIF block
  const uint8_t* scan = nullptr;
  const uint8_t* end = nullptr;
};

// False for whatever the decoder does not take: progressive, arithmetic, 12 bits, other colours than grey and YCbCr,
// other sampling than 4:4:4, 4:2:2 and 4:2:0, no end marker, damage.  The pointers lead into `data`.
bool read_header(const uint8_t* data, size_t size, Header& header);

}  // namespace mx::io::jpeg
