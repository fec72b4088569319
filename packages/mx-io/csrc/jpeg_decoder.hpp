// SPDX-License-Identifier: Apache-2.0
//
// Decodes a part of a JPEG file: what lies outside of it is not transformed, and what lies below it is not read.
#pragma once

#include <vector>

#include "augment.hpp"
#include "image.hpp"
#include "jpeg_entropy.hpp"
#include "jpeg_header.hpp"

namespace mx::io::jpeg {

// Pixels are equal to those of libjpeg-turbo's accurate decoding.  Threads: one at a time; kept by a thread, so that
// memory and tables are made once.
class Decoder {
 public:
  // Whether this machine can decode at all.
  static bool available();
  // Three channels, red first, or one, grey; false for damage, or grey files of which three are wanted.  The region
  // lies in the image.  Orientation is the caller's.
  bool decode(const Header& header, const Region& region, int64_t channels, Image& out);

 private:
  struct Plane {
    std::vector<uint8_t> samples;
    int64_t row_bytes = 0;
    uint8_t* at(int64_t x, int64_t y) { return samples.data() + y * row_bytes + x; }
  };
  struct Units {  // of the part that is kept
    int64_t left, right, upper, lower;
  };

  bool prepare(const Header& header);
  Units units_of(const Header& header, const Region& region, int64_t channels) const;
  bool read(const Header& header, const Units& units, int kept);
  template <bool kStore>
  bool read_unit(const Header& header, BitReader& in, int kept, int64_t column, int64_t row);
  void convert(const Header& header, const Region& region, const Units& units, Image& out);

  FirstTable firsts_[4];
  OtherTable others_[4];
  alignas(16) int16_t steps_[3][64] = {};  // in rows of a block
  Plane planes_[3];
  int predictions_[3] = {0, 0, 0};
  std::vector<int16_t> values_, blue_, red_;
};

}  // namespace mx::io::jpeg
