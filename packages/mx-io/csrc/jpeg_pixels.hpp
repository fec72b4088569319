// SPDX-License-Identifier: Apache-2.0
//
// From coefficients of JPEG blocks to red, green and blue.  All of it needs AVX2, and gives what libjpeg gives: its
// accurate integer transform, triangle filters for the colours, and 16 bits of fraction for converting them.
#pragma once

#include <cstdint>
#include <vector>

namespace mx::io::jpeg {

// Whether this machine can run what is below.
bool has_pixels();

struct BlockTarget {
  uint8_t* pixels;
  int64_t row_bytes;
  const int16_t* steps;  // what the coefficients are multiples of, eight rows of them
};

// Two blocks of 64 coefficients each, eight rows of them, inversely transformed; they and the steps are 16-byte
// aligned.
void transform_two(const int16_t* a, const int16_t* b, BlockTarget to_a, BlockTarget to_b);
// A block of which all coefficients but the first are zero.
void transform_flat(int16_t coefficient, BlockTarget to);

// One row of samples of a colour, doubled along x by a triangle filter.  `near` and `far` are its own row and the next
// in the direction of the output row; `far` null leaves rows as they are.  Samples [begin, end) are wanted; those of
// [0, count) are there, and 32 bytes may be read behind them.  Values are centred at 0.
void double_row(const uint8_t* near, const uint8_t* far, int64_t begin, int64_t end, int64_t count,
                std::vector<int16_t>& scratch, int16_t* out);
// The same without doubling.
void centre_row(const uint8_t* samples, int64_t count, int16_t* out);

// `width` pixels; 32 bytes may be read behind each row.
void colour_row(const uint8_t* luma, const int16_t* blue, const int16_t* red, int64_t width, uint8_t* out);

}  // namespace mx::io::jpeg
