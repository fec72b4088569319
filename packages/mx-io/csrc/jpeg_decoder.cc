// SPDX-License-Identifier: Apache-2.0
#include "jpeg_decoder.hpp"

#include <algorithm>
#include <cstring>

#include "jpeg_pixels.hpp"

namespace mx::io::jpeg {
namespace {

// What vectors may read or write behind the end of a row.
constexpr int64_t kSlack = 64;

int64_t over(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

bool Decoder::available() { return has_pixels(); }

bool Decoder::prepare(const Header& header) {
  for (int c = 0; c < header.count; ++c) {
    const Codes& codes = header.dc[header.components[c].dc];
    int total = 0;
    for (const uint8_t count : codes.counts) total += count;
    if (std::any_of(codes.symbols, codes.symbols + total, [](uint8_t size) { return size > 11; })) return false;
    firsts_[header.components[c].dc].make(codes);
    others_[header.components[c].ac].make(header.ac[header.components[c].ac]);
    const uint16_t* const steps = header.quantization[header.components[c].quantization];
    for (int k = 0; k < 64; ++k) steps_[c][kNatural.place[k]] = static_cast<int16_t>(steps[k]);
  }
  return true;
}

Decoder::Units Decoder::units_of(const Header& header, const Region& region, int64_t channels) const {
  const Component& luma = header.components[0];
  const auto range = [channels](int64_t begin, int64_t end, int64_t samples, int64_t side, int64_t& first,
                                int64_t& last) {
    if (channels == 3 && samples == 2) {  // filters of the colours reach one sample further
      begin = std::max<int64_t>(begin / 2 - 1, 0);
      end = std::min((end - 1) / 2 + 2, over(side, 2));
      samples = 1;
    }
    first = begin / (8 * samples), last = (end - 1) / (8 * samples);
  };
  Units units{};
  range(region.x, region.x + region.width, luma.across, header.width, units.left, units.right);
  range(region.y, region.y + region.height, luma.down, header.height, units.upper, units.lower);
  return units;
}

template <bool kStore>
bool Decoder::read_unit(const Header& header, BitReader& reader, int kept, int64_t column, int64_t row) {
  BitReader in = reader;
  alignas(32) int16_t blocks[6][kBlock];
  BlockTarget targets[6];
  bool flat[6];
  int count = 0;
  for (int c = 0; c < header.count; ++c) {
    const Component& component = header.components[c];
    for (int y = 0; y < component.down; ++y) {
      for (int x = 0; x < component.across; ++x) {
        const FirstTable& firsts = firsts_[component.dc];
        const OtherTable& others = others_[component.ac];
        if (!kStore || c >= kept) {
          bool any;
          if (!read_block<false>(in, firsts, others, predictions_[c], nullptr, any)) return false;
          continue;
        }
        std::memset(blocks[count], 0, sizeof blocks[count]);
        if (!read_block<true>(in, firsts, others, predictions_[c], blocks[count], flat[count])) return false;
        targets[count] = {planes_[c].at(8 * (column * component.across + x), 8 * (row * component.down + y)),
                          planes_[c].row_bytes, steps_[c]};
        ++count;
      }
    }
  }
  if (in.overrun()) return false;
  reader = in;
  if (!kStore) return true;
  uint8_t nowhere[64];
  for (int i = 0; i < count; i += 2) {
    const bool single = i + 1 == count;
    if (flat[i] && (single || flat[i + 1])) {
      transform_flat(blocks[i][0], targets[i]);
      if (!single) transform_flat(blocks[i + 1][0], targets[i + 1]);
    } else {
      transform_two(blocks[i], blocks[single ? i : i + 1], targets[i],
                    single ? BlockTarget{nowhere, 8, steps_[0]} : targets[i + 1]);
    }
  }
  return true;
}

bool Decoder::read(const Header& header, const Units& units, int kept) {
  const Component& luma = header.components[0];
  const int64_t across = over(header.width, 8 * luma.across);
  BitReader in{header.scan, header.end};
  std::fill(predictions_, predictions_ + 3, 0);
  int64_t number = 0;
  int restarts = 0;
  for (int64_t y = 0; y <= units.lower; ++y) {
    for (int64_t x = 0; x < across; ++x, ++number) {
      if (header.restart > 0 && number > 0 && number % header.restart == 0) {
        if (!in.restart(restarts++)) return false;
        std::fill(predictions_, predictions_ + 3, 0);
      }
      const bool stored = y >= units.upper && x >= units.left && x <= units.right;
      if (!(stored ? read_unit<true>(header, in, kept, x - units.left, y - units.upper)
                   : read_unit<false>(header, in, kept, 0, 0))) {
        return false;
      }
    }
  }
  return true;
}

void Decoder::convert(const Header& header, const Region& region, const Units& units, Image& out) {
  const Component& luma = header.components[0];
  const int64_t left = units.left * 8, upper = units.upper * 8;  // of the colours' planes
  const int64_t width = over(header.width, luma.across), height = over(header.height, luma.down);
  const int64_t begin = region.x / luma.across, end = (region.x + region.width - 1) / luma.across + 1;
  const auto values_of_row = static_cast<size_t>(2 * (end - begin) + kSlack);
  blue_.resize(values_of_row), red_.resize(values_of_row);
  for (int64_t y = 0; y < region.height; ++y) {
    const int64_t whole_y = region.y + y, near = whole_y / luma.down;
    for (int c = 1; c < 3; ++c) {
      int16_t* const values = (c == 1 ? blue_ : red_).data();
      const uint8_t* const row = planes_[c].at(0, near - upper);
      if (luma.across == 1) {
        centre_row(row + begin - left, end - begin, values);
        continue;
      }
      const uint8_t* far = nullptr;
      if (luma.down == 2) {
        const int64_t other = std::clamp<int64_t>(near + (whole_y % 2 == 0 ? -1 : 1), 0, height - 1);
        far = planes_[c].at(0, other - upper);
      }
      // `begin - 1` is only asked for where it is not outside of the image, and then lies in the planes.
      double_row(row, far, begin - left, end - left, width - left, values_, values);
    }
    const int64_t skip = region.x - begin * luma.across;
    colour_row(planes_[0].at(region.x - left * luma.across, whole_y - upper * luma.down), blue_.data() + skip,
               red_.data() + skip, region.width, out.row(y));
  }
}

bool Decoder::decode(const Header& header, const Region& region, int64_t channels, Image& out) {
  if (!available() || (channels != 1 && (channels != 3 || header.count != 3)) || !prepare(header)) return false;
  // Two bits a block at least: memory is not taken for what the data cannot have.
  if (over(header.width, 8) * over(header.height, 8) > 4 * (header.end - header.scan)) return false;
  const Units units = units_of(header, region, channels);
  const int kept = channels == 1 ? 1 : 3;
  for (int c = 0; c < kept; ++c) {
    const Component& component = header.components[c];
    Plane& plane = planes_[c];
    plane.row_bytes = (units.right - units.left + 1) * 8 * component.across;
    const int64_t rows = (units.lower - units.upper + 1) * 8 * component.down;
    const auto needed = static_cast<size_t>(plane.row_bytes * rows + kSlack);
    if (plane.samples.size() < needed) plane.samples.resize(needed);  // what is there need not be cleared again
  }
  if (!read(header, units, kept)) return false;
  out.reshape(region.height, region.width, channels);
  if (channels == 3) {
    convert(header, region, units, out);
    return true;
  }
  const Component& luma = header.components[0];
  const int64_t left = region.x - units.left * 8 * luma.across, upper = region.y - units.upper * 8 * luma.down;
  for (int64_t y = 0; y < region.height; ++y) {
    std::memcpy(out.row(y), planes_[0].at(left, upper + y), static_cast<size_t>(region.width));
  }
  return true;
}

}  // namespace mx::io::jpeg
