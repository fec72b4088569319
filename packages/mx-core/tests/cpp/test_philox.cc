// SPDX-License-Identifier: Apache-2.0
//
// Known answers of Random123's kat_vectors for philox4x32-10; prints the conversions' values for
// the NumPy twin to compare when called as `test_philox dump KEY OFFSET`.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "mx_core/philox.hpp"

namespace {

using mx::philox::wide;
using mx::philox::word;

struct Known {
  word counter[4];
  word key[2];
  word expected[4];
};

constexpr Known kKnown[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}},
    {{0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF},
     {0xFFFFFFFF, 0xFFFFFFFF},
     {0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}},
    {{0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344},
     {0xA4093822, 0x299F31D0},
     {0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}},
};

int check() {
  for (const Known& known : kKnown) {
    const mx::philox::Block got = mx::philox::philox4x32(known.counter, known.key);
    if (std::memcmp(got.words, known.expected, sizeof got.words) != 0) {
      std::fprintf(stderr, "philox4x32: got %08x %08x %08x %08x\n", got.words[0], got.words[1],
                   got.words[2], got.words[3]);
      return 1;
    }
  }
  if (mx::philox::below(~wide{0}, ~wide{0}) != ~wide{0} - 1) return 1;
  if (mx::philox::uniform32(0xFFFFFFFF) >= 1.0F || mx::philox::uniform64(~wide{0}) >= 1.0) return 1;
  return 0;
}

void dump(wide key, wide offset) {
  for (wide c = 0; c < 64; ++c) {
    const auto [w] = mx::philox::block(key, offset + c);
    const wide low = mx::philox::join(w[0], w[1]), high = mx::philox::join(w[2], w[3]);
    float n32[2];
    double n64[2];
    mx::philox::normal32(w[0], w[1], n32[0], n32[1]);
    mx::philox::normal64(low, high, n64[0], n64[1]);
    std::printf("%u %u %u %u %a %a %llu %a %a %a %a\n", w[0], w[1], w[2], w[3],
                static_cast<double>(mx::philox::uniform32(w[0])), mx::philox::uniform64(low),
                mx::philox::below(low, wide{1} << 63 | 12345), static_cast<double>(n32[0]),
                static_cast<double>(n32[1]), n64[0], n64[1]);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], "dump") == 0) {
    dump(std::strtoull(argv[2], nullptr, 10), std::strtoull(argv[3], nullptr, 10));
    return 0;
  }
  return check();
}
