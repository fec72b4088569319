// SPDX-License-Identifier: Apache-2.0
#include "jpeg_entropy.hpp"

namespace mx::io::jpeg {

bool CodeList::make(const Codes& codes) {
  if (codes_.given && std::memcmp(codes_.counts, codes.counts, sizeof codes.counts) == 0 &&
      std::memcmp(codes_.symbols, codes.symbols, sizeof codes.symbols) == 0) {
    return false;
  }
  codes_ = codes;
  uint32_t code = 0;  // its bits at the top of 16
  int32_t place = 0;
  for (int length = 1; length <= 16; ++length) {
    starts_[length - 1] = place - static_cast<int32_t>(code >> (16 - length));
    place += codes.counts[length - 1];
    code += static_cast<uint32_t>(codes.counts[length - 1]) << (16 - length);
    limits_[length - 1] = code;
  }
  return true;
}

void FirstTable::make(const Codes& codes) {
  if (!list_.make(codes)) return;
  for (uint64_t i = 0; i < 1U << kBits; ++i) {
    Entry& entry = entries_[i] = Entry{};
    const uint64_t bits = i << (64 - kBits);
    int length;
    const int size = list_.symbol(bits, length);
    if (size < 0 || length + size > kBits) continue;
    entry.value = static_cast<int16_t>(size == 0 ? 0 : extend(bits << length, size));
    entry.length = static_cast<int16_t>(length + size);
  }
}

void OtherTable::make(const Codes& codes) {
  if (!list_.make(codes)) return;
  for (uint64_t i = 0; i < 1U << kBits; ++i) {
    Entry& entry = entries_[i] = Entry{};
    const uint64_t bits = i << (64 - kBits);
    int length;
    const int symbol = list_.symbol(bits, length);
    const int size = symbol & 15;
    if (symbol < 0 || length + size > kBits) continue;
    entry.first = static_cast<int16_t>(size == 0 ? 0 : extend(bits << length, size));
    entry.skip = static_cast<uint8_t>(symbol >> 4);
    entry.length = static_cast<uint8_t>(length + size);
    entry.between = 1;  // a zero is put there
    entry.advance = static_cast<uint8_t>(size == 0 && symbol != 0xF0 ? kEnd : entry.skip + 1);
  }
  Entry singles[1 << kBits];
  std::memcpy(singles, entries_, sizeof singles);
  for (uint32_t i = 0; i < 1U << kBits; ++i) {
    Entry& entry = entries_[i];
    if (entry.length == 0 || entry.advance >= kEnd) continue;
    const Entry& next = singles[(i << entry.length) & ((1U << kBits) - 1)];
    if (next.length == 0 || entry.length + next.length > kBits) continue;
    entry.second = next.first;
    entry.between = static_cast<uint8_t>(1 + next.skip);
    entry.advance = static_cast<uint8_t>(entry.advance + next.advance);
    entry.length = static_cast<uint8_t>(entry.length + next.length);
  }
}

BitReader BitReader::filled_by_bytes(BitReader in) {
  while (in.count <= 56) {
    if (in.at < in.end && *in.at != 0xFF) {
      in.bits |= static_cast<uint64_t>(*in.at++) << (56 - in.count);
    } else if (in.end - in.at >= 2 && in.at[1] == 0) {
      in.bits |= static_cast<uint64_t>(0xFF) << (56 - in.count);
      in.at += 2;
    } else {  // a marker, or the end
      in.invented += 8;
    }
    in.count += 8;
  }
  return in;
}

bool BitReader::restart(int number) {
  if (count - invented >= 8 || end - at < 2 || at[0] != 0xFF || at[1] != 0xD0 + (number & 7)) return false;
  at += 2;
  bits = 0, count = 0, invented = 0;
  return true;
}

}  // namespace mx::io::jpeg
