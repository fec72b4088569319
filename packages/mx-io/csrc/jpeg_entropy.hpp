// SPDX-License-Identifier: Apache-2.0
//
// The entropy-coded data of a sequential JPEG file (ITU-T T.81, annex F.2).
#pragma once

#include <cstdint>
#include <cstring>

#include "jpeg_header.hpp"

namespace mx::io::jpeg {

// Places that may be written behind the last coefficient, by damaged data.
inline constexpr int kPlaces = 128;
// Values of a block: its coefficients, and one place for all that lie behind them.  Each block begins at a multiple of 16
// bytes.
inline constexpr int kBlock = 72;

// Where a coefficient of the zigzag order lies in a block of eight rows.
struct Natural {
  uint8_t place[kPlaces];
};
constexpr Natural make_natural() {
  Natural natural{};
  int row = 0, column = 0;
  for (int k = 0; k < kPlaces; ++k) {
    natural.place[k] = static_cast<uint8_t>(k < 64 ? 8 * row + column : 64);
    const bool rising = (row + column) % 2 == 0;
    const int along = rising ? column : row, across = rising ? row : column;
    const int next_along = along < 7 ? along + 1 : along;
    const int next_across = along == 7 ? across + 1 : across > 0 ? across - 1 : 0;
    row = rising ? next_across : next_along;
    column = rising ? next_along : next_across;
  }
  return natural;
}
inline constexpr Natural kNatural = make_natural();

// Bits from the top of `bits`; zeros are appended where the data end.
struct BitReader {
  const uint8_t* at;
  const uint8_t* end;
  uint64_t bits = 0;
  int count = 0;
  int invented = 0;

  void need32() {
    if (count >= 32) return;
    if (end - at >= 8) {
      uint64_t word;
      std::memcpy(&word, at, 8);
      const uint64_t inverted = ~word;
      if (((inverted - 0x0101010101010101ULL) & ~inverted & 0x8080808080808080ULL) == 0) {  // no byte of ones
        bits |= __builtin_bswap64(word) >> count;
        at += (63 - count) >> 3;
        count |= 56;
        return;
      }
    }
    *this = filled_by_bytes(*this);  // no pointer to a reader leaves: it stays in registers
  }
  static BitReader filled_by_bytes(BitReader in);
  void drop(int n) {
    bits <<= n;
    count -= n;
  }
  // More was taken than the data have.
  bool overrun() const { return invented > count; }
  // Goes on behind a restart marker; false where none is next.
  bool restart(int number);
};

// The value of `size` bits at the top, at least one.
inline int extend(uint64_t bits, int size) {
  const auto value = static_cast<int>(bits >> (64 - size));
  return value < (1 << (size - 1)) ? value - (1 << size) + 1 : value;
}

// What looks up codes of any length; `CodeTable` has the short ones.
class CodeList {
 public:
  // False when it was made of the same codes.
  bool make(const Codes& codes);
  // Of the code at the top of `bits`; the symbol is -1 when there is none.
  int symbol(uint64_t bits, int& length) const {
    const auto top = static_cast<uint32_t>(bits >> 48);
    for (length = 1; length <= 16; ++length) {
      if (top >= limits_[length - 1]) continue;
      return codes_.symbols[static_cast<int32_t>(top >> (16 - length)) + starts_[length - 1]];
    }
    return -1;
  }

 private:
  Codes codes_;
  uint32_t limits_[16];  // behind the codes of a length, their bits at the top of 16
  int32_t starts_[16];
};

// Sizes and values of the first coefficients.
class FirstTable {
 public:
  static constexpr int kBits = 9;
  void make(const Codes& codes);
  // False for damage.
  bool read(BitReader& in, int& prediction) const {
    const Entry entry = entries_[in.bits >> (64 - kBits)];
    if (entry.length != 0) {
      in.drop(entry.length);
      prediction = static_cast<int16_t>(prediction + entry.value);
      return true;
    }
    int length;
    const int size = list_.symbol(in.bits, length);
    if (size < 0 || size > 11) return false;
    in.drop(length);
    if (size > 0) {
      prediction = static_cast<int16_t>(prediction + extend(in.bits, size));
      in.drop(size);
    }
    return true;
  }

 private:
  struct Entry {
    int16_t value;
    int16_t length;  // bits with the value; 0 for what is longer than the table's
  };
  CodeList list_;
  Entry entries_[1 << kBits];
};

// The next one or two of the other coefficients, with the zeros before them.
class OtherTable {
 public:
  static constexpr int kBits = 11;
  // Added to the place at the end of a block.
  static constexpr int kEnd = 128;
  struct Entry {
    int16_t first, second;
    uint8_t skip;     // zeros before the first
    uint8_t between;  // from the place of the first to that of the second
    uint8_t advance;  // of the place in all
    uint8_t length;   // bits in all; 0 for what is longer than the table's
  };
  void make(const Codes& codes);
  Entry entry(uint64_t bits) const { return entries_[bits >> (64 - kBits)]; }
  // A coefficient whose code and value are longer than the table's bits, or any; false for damage.
  bool single(BitReader& in, int& place, int& value, int& advance) const {
    int length;
    const int symbol = list_.symbol(in.bits, length);
    if (symbol < 0) return false;
    in.drop(length);
    const int size = symbol & 15;
    value = 0;
    place += symbol >> 4;
    advance = 1;
    if (size == 0) {
      if (symbol != 0xF0) advance = kEnd;
    } else {
      value = extend(in.bits, size);
      in.drop(size);
    }
    return true;
  }

 private:
  CodeList list_;
  Entry entries_[1 << kBits];
};

// One block.  With `kStore` its coefficients go into `out`, kBlock values that are zero; false for damage.  `flat` says
// that all but the first are zero.
template <bool kStore>
inline bool read_block(BitReader& in, const FirstTable& firsts, const OtherTable& others, int& prediction,
                       int16_t* out, bool& flat) {
  in.need32();
  if (!firsts.read(in, prediction)) return false;
  if (kStore) out[0] = static_cast<int16_t>(prediction);
  int k = 1, any = 0;
  const auto put = [&](int place, int value) {
    if (!kStore) return;
    out[kNatural.place[place]] = static_cast<int16_t>(value);
    any |= value;
  };
  while (k < 64) {
    in.need32();
    const OtherTable::Entry entry = others.entry(in.bits);
    const int place = k + entry.skip;
    if (entry.length != 0 && place < 63) {
      in.drop(entry.length);
      put(place, entry.first);
      put(place + entry.between, entry.second);
      k += entry.advance;
    } else {  // the rest of an entry may belong to the next block
      int value, advance;
      if (!others.single(in, k, value, advance)) return false;
      put(k, value);
      k += advance;
    }
  }
  flat = any == 0;
  return k == 64 || k >= OtherTable::kEnd;
}

}  // namespace mx::io::jpeg
