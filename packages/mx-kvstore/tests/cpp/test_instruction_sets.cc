// SPDX-License-Identifier: Apache-2.0
//
// Loops compiled for AVX2 and those for every processor give the same bits.
#include <cstring>
#include <random>
#include <vector>

#include "codec.hpp"
#include "mx_core/abi.h"
#include "mx_core/native_tests.hpp"
#include "mx_core/types.hpp"
#include "simd.hpp"
#include "sum.hpp"

using namespace mx::kv;

namespace {

// Runs `body` with either instruction set; what it gives must be equal.
template <class Body>
void equal(const Body& body) {
  avx2_allowed = false;
  const auto plain = body();
  avx2_allowed = true;
  CHECK(body() == plain);
}

void codes() {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 0.5f);
  for (const Code code : {Code::kOneBit, Code::kTwoBits}) {
    for (const int64_t n : {0, 1, 7, 8, 9, 31, 32, 33, 1000, 4097}) {
      std::vector<float> gradient(static_cast<size_t>(n) + 1), start(gradient.size());
      for (float& each : gradient) each = normal(random);
      for (float& each : start) each = normal(random);
      for (const size_t offset : {0, 1}) {
        const int64_t count = n - (n > 0 ? static_cast<int64_t>(offset) : 0);
        equal([&] {
          std::vector<float> residual = start, out(gradient.size(), 3);
          std::vector<uint8_t> bytes(static_cast<size_t>(code_bytes(code, count)), 0xff);
          compress(code, 0.3f, gradient.data() + offset, residual.data() + offset, bytes.data(), count);
          const Expander expand(code, 0.3f);
          expand(bytes.data(), out.data() + offset, count, false);
          expand(bytes.data(), out.data() + offset, count, true);
          std::vector<char> all(bytes.begin(), bytes.end());
          for (const auto* floats : {&residual, &out}) {
            const auto* begin = reinterpret_cast<const char*>(floats->data());
            all.insert(all.end(), begin, begin + floats->size() * sizeof(float));
          }
          return all;
        });
      }
    }
  }
}

void sums() {
  std::mt19937 random(5);
  for (const int32_t dtype : {MX_FLOAT32, MX_FLOAT64, MX_FLOAT16, MX_BFLOAT16, MX_INT8, MX_UINT8, MX_INT16, MX_UINT16,
                              MX_INT32, MX_UINT32, MX_INT64, MX_UINT64}) {
    CHECK(can_sum(dtype));
    const size_t size = mx::item_size(dtype);
    for (const int64_t n : {1, 15, 16, 64, 65, 3000}) {
      // Bits of floats that are finite: the exponent's highest bit is 0.
      std::vector<std::vector<uint8_t>> sources(4, std::vector<uint8_t>(size * static_cast<size_t>(n) + 64));
      for (auto& source : sources) {
        for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<uint8_t>(random() & ((i + 1) % size ? 0xff : 0xbf));
      }
      for (size_t count = 1; count <= sources.size(); ++count) {
        for (const bool streaming : {false, true}) {
          for (const size_t shift : {size_t{0}, size}) {
            equal([&] {
              std::vector<const void*> from;
              for (size_t i = 0; i < count; ++i) from.push_back(sources[i].data() + shift);
              std::vector<uint8_t> one(sources[0].size(), 1), two(sources[0].size(), 2);
              sum(dtype, from, {one.data() + shift, two.data()}, 0, n, streaming);
              CHECK(std::memcmp(one.data() + shift, two.data(), size * static_cast<size_t>(n)) == 0);
              CHECK(one.back() == 1 && two.back() == 2);  // nothing beyond the end
              return one;
            });
          }
        }
      }
    }
  }
  CHECK(!can_sum(MX_BOOL) && !can_sum(MX_COMPLEX64) && !can_sum(99));
}

}  // namespace

int main() { return test::run({{"codes", codes}, {"sums", sums}}); }
