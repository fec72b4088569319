// SPDX-License-Identifier: Apache-2.0
//
// Loops of the table where requests of whole plans do not show a mistake: what they read last, how they round.
#include "simd/loops.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "mx_core/half.hpp"
#include "mx_core/native_tests.hpp"

using namespace mx::cpu;

namespace {

uint32_t float_bits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
float float_of(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
mx::Float16 half_of(size_t bits) {
  mx::Float16 x;
  x.bits = static_cast<uint16_t>(bits);
  return x;
}
// Bit by bit, but for what is no number.
bool same(float a, float b) { return float_bits(a) == float_bits(b) || (std::isnan(a) && std::isnan(b)); }

// Words that end where a page does whose neighbour may not be read.
class LastWords {
 public:
  explicit LastWords(size_t n) : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))), n_(n) {
    CHECK(n * sizeof(uint32_t) <= page_);
    memory_ = mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory_ != MAP_FAILED && mprotect(static_cast<char*>(memory_) + page_, page_, PROT_NONE) == 0);
    for (size_t i = 0; i < n; ++i) data()[i] = static_cast<uint32_t>(i * 2654435761u);
  }
  ~LastWords() { munmap(memory_, 2 * page_); }
  uint32_t* data() { return reinterpret_cast<uint32_t*>(static_cast<char*>(memory_) + page_) - n_; }

 private:
  const size_t page_, n_;
  void* memory_;
};

void normal_numbers_of_whole_blocks_and_less() {
  for (const size_t pairs : {1, 127, 128, 129, 256, 300}) {
    LastWords words(2 * pairs);
    std::vector<float> made(2 * pairs, NAN);
    loops().normal(made.data(), words.data(), pairs);
    for (size_t i = 0; i < pairs; ++i) {  // the radius of a pair depends on its first word alone
      const double radius = std::sqrt(-2 * std::log(words.data()[2 * i] * 0x1p-32 + 0x1p-33));
      CHECK(std::fabs(std::hypot(made[2 * i], made[2 * i + 1]) - radius) < 1e-5 * (1 + radius));
    }
  }
}

// A double just above the middle of two 16-bit numbers: rounded to float32 first, it would be the middle.
void doubles_are_rounded_once() {
  const double one = 1, half16 = 0x1p-11, half_brain = 0x1p-8, little = 0x1p-40;
  for (const auto& [dtype, half] : {std::pair{MX_FLOAT16, half16}, std::pair{MX_BFLOAT16, half_brain}}) {
    const double numbers[] = {one + half + little, one + half, one + half - little, NAN};
    uint16_t bits[4];
    loops().store[F64][dtype](bits, numbers, 4);
    const uint16_t below = dtype == MX_FLOAT16 ? 0x3c00 : 0x3f80;
    CHECK(bits[0] == below + 1 && bits[1] == below && bits[2] == below);
    float back;
    loops().load[dtype][F32](&back, bits + 3, 1);
    CHECK(std::isnan(back));
  }
}

// Every half under every instruction set, in whole vectors and in what remains; every float next to a half or between
// two of them.
void halves_and_what_lies_between_them() {
  std::vector<uint16_t> halves(65536 + 5);
  std::vector<float> floats;
  for (size_t i = 0; i < halves.size(); ++i) {
    halves[i] = static_cast<uint16_t>(i);
    const uint32_t half = float_bits(float(half_of(halves[i]))), next = float_bits(float(half_of(halves[i] + 1)));
    for (const uint32_t bits : {half, half + (next - half) / 2})
      for (const uint32_t step : {0u, 1u, ~0u, 2u, ~1u}) floats.push_back(float_of(bits + step));
  }
  for (const float x : {65504.f, 65519.99f, 65520.f, 65536.f, 1e10f, HUGE_VALF, NAN, 0x1p-25f, 0x1.000002p-25f, 0x1p-149f})
    floats.insert(floats.end(), {x, -x});
  for (const char* name : {"avx512", "avx2", "baseline"}) {
    const LoopTable* table = loops_named(name);
    if (table == nullptr) continue;
    std::vector<float> loaded(halves.size());
    table->load[MX_FLOAT16][F32](loaded.data(), halves.data(), halves.size());
    for (size_t i = 0; i < halves.size(); ++i) CHECK(same(loaded[i], float(half_of(halves[i]))));
    std::vector<uint16_t> stored(floats.size());
    table->store[F32][MX_FLOAT16](stored.data(), floats.data(), floats.size());
    for (size_t i = 0; i < floats.size(); ++i)
      CHECK(same(float(half_of(stored[i])), float(mx::Float16(floats[i]))));
  }
}

}  // namespace

int main() {
  return test::run({{"normal numbers of whole blocks and less", normal_numbers_of_whole_blocks_and_less},
                    {"doubles are rounded once", doubles_are_rounded_once},
                    {"halves and what lies between them", halves_and_what_lies_between_them}});
}
