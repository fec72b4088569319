// SPDX-License-Identifier: Apache-2.0
#include "random/random.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "simd/loops.hpp"
#include "indexing/strided_copy.hpp"
#include "mx_core/expression.h"
#include "mx_core/philox.hpp"
#include "simd/accumulate.hpp"
#include "common/parallel.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kChunk = 1024;  // elements made at a time; even, and whole blocks of words
constexpr int64_t kGrain = 16;    // chunks a thread takes at a time

struct Chunk {
  alignas(64) uint32_t words[2 * kChunk];
  alignas(64) char values[8 * kChunk];
  alignas(64) char other[8 * kChunk];
  alignas(64) char more[8 * kChunk];
};

// Words for elements [first, first + n): one per element, or two.
void draw_words(const LoopTable& table, const mx_kernel_context& context, bool wide, int64_t first,
                int64_t n, uint32_t* words) {
  const int64_t per_block = wide ? 2 : 4;
  table.philox(words, context.random_key,
               context.random_offset + static_cast<uint64_t>(first / per_block), 0,
               static_cast<size_t>((n + per_block - 1) / per_block));
}

uint64_t word64(const uint32_t* words, int64_t i) {
  return philox::join(words[2 * i], words[2 * i + 1]);
}

// Writes values of the compute type to an output, or adds them.
void deliver(const LoopTable& table, Compute type, const void* values, int dtype, char* out,
             int64_t first, int64_t n, bool adds) {
  char* to = out + first * static_cast<int64_t>(item_size(dtype));
  if (!adds) {
    table.store[type][dtype](to, values, static_cast<size_t>(n));
    return;
  }
  alignas(64) char stored[8 * kChunk];
  table.store[type][dtype](stored, values, static_cast<size_t>(n));
  accumulate(dtype, to, stored, n);
}

class RandomPlan final : public Plan {
 public:
  RandomPlan(std::vector<Spec> inputs, std::vector<Spec> outputs, const RandomOptions& options)
      : Plan(std::move(inputs), std::move(outputs), scalars_of(options.distribution)),
        o_(options),
        table_(loops()),
        dtype_(outputs_[0].dtype),
        type_(o_.distribution == Distribution::kIntegers ? I64
              : dtype_ == MX_FLOAT64                     ? F64
                                                         : F32),
        wide_(type_ != F32) {
    random_blocks = o_.blocks;
    if (outputs_[0].bytes() > kParallelBytes / 4) set_parallel();
  }

 protected:
  void execute(const Call& call) const override {
    if (!call.wanted(0)) return;
    const int64_t n = outputs_[0].size(), chunks = (n + kChunk - 1) / kChunk;
    parallel_for(chunks, kGrain, [&](int64_t begin, int64_t end) {
      Chunk chunk;
      for (int64_t c = begin; c < end; ++c) {
        const int64_t first = c * kChunk, some = std::min(kChunk, n - first);
        draw_words(table_, call.context, wide_, first, some + some % 2, chunk.words);
        type_ == F32   ? draw<float>(call, chunk, some)
        : type_ == F64 ? draw<double>(call, chunk, some)
                       : draw_integers(chunk, some);
        deliver(table_, type_, chunk.values, dtype_, call.output(0), first, some, call.adds(0));
      }
    });
  }

 private:
  static uint32_t scalars_of(Distribution d) {
    return d == Distribution::kIntegers ? 0 : d == Distribution::kExponential ? 1 : 2;
  }

  void check(const Call& call) const override {
    const auto fail = [&](const std::string& what) {
      throw Error(MX_ERROR_VALUE, "[" + o_.op + "] " + what);
    };
    if (o_.distribution == Distribution::kUniform && !(call.scalar(0) <= call.scalar(1)))
      fail("low " + shown(call.scalar(0)) + " is above high " +
           shown(call.scalar(1)));
    if (o_.distribution == Distribution::kNormal && !(call.scalar(1) >= 0))
      fail("scale: expected at least 0, got " + shown(call.scalar(1)));
    if (o_.distribution == Distribution::kExponential && !(call.scalar(0) > 0))
      fail("lam: expected above 0, got " + shown(call.scalar(0)));
  }

  void apply(int opcode, void* values, const void* a, const void* b, int form, int64_t n) const {
    table_.op[type_][opcode][form](values, a, b, nullptr, static_cast<size_t>(n));
  }

  // Rounds to the output's type and back, where the definition does so before scaling.
  void round(Chunk& chunk, int64_t n) const {
    if (dtype_ != MX_FLOAT16 && dtype_ != MX_BFLOAT16) return;
    table_.store[F32][dtype_](chunk.other, chunk.values, static_cast<size_t>(n));
    table_.load[dtype_][F32](chunk.values, chunk.other, static_cast<size_t>(n));
  }

  template <class T>
  T unit(const uint32_t* words, int64_t i) const {
    if constexpr (sizeof(T) == 8) return philox::uniform64(word64(words, i));
    if (o_.distribution == Distribution::kUniform && dtype_ == MX_FLOAT16)
      return static_cast<T>(philox::uniform16(words[i]));
    if (o_.distribution == Distribution::kUniform && dtype_ == MX_BFLOAT16)
      return static_cast<T>(philox::uniform_bfloat16(words[i]));
    return static_cast<T>(philox::uniform32(words[i]));
  }

  template <class T>
  void draw(const Call& call, Chunk& chunk, int64_t n) const {
    auto* v = reinterpret_cast<T*>(chunk.values);
    if (o_.distribution == Distribution::kUniform && dtype_ == MX_FLOAT32) {
      table_.uniform(reinterpret_cast<float*>(v), chunk.words, static_cast<float>(call.scalar(0)),
                     static_cast<float>(call.scalar(1) - call.scalar(0)), static_cast<size_t>(n));
      return;
    }
    if (o_.distribution == Distribution::kNormal) {
      draw_normal<T>(chunk, n);
      round(chunk, n);
      const T scale = static_cast<T>(call.scalar(1)), loc = static_cast<T>(call.scalar(0));
      for (int64_t i = 0; i < n; ++i) v[i] = v[i] * scale + loc;
      return;
    }
    for (int64_t i = 0; i < n; ++i) v[i] = unit<T>(chunk.words, i);
    if (o_.distribution == Distribution::kUniform) {
      const T span = static_cast<T>(call.scalar(1) - call.scalar(0));
      const T low = static_cast<T>(call.scalar(0));
      for (int64_t i = 0; i < n; ++i) v[i] = v[i] * span + low;
    } else {
      const T rate = static_cast<T>(-call.scalar(0));
      apply(MX_OP_NEG, v, v, nullptr, 0, n);
      apply(MX_OP_LOG1P, v, v, nullptr, 0, n);
      apply(MX_OP_DIV, v, v, &rate, 2, n);
    }
  }

  template <class T>
  void draw_normal(Chunk& chunk, int64_t n) const {
    const int64_t half = (n + 1) / 2;
    if constexpr (sizeof(T) == 4) {
      table_.normal(reinterpret_cast<float*>(chunk.values), chunk.words, static_cast<size_t>(half));
      return;
    }
    // Box and Muller over halves: radii of even elements, angles of odd ones.
    auto* radius = reinterpret_cast<T*>(chunk.other);
    auto* angle = radius + half;
    auto* cosine = reinterpret_cast<T*>(chunk.more);
    for (int64_t j = 0; j < half; ++j) {
      radius[j] = static_cast<T>((word64(chunk.words, 2 * j) >> 11) + 1) * 0x1p-53;
      angle[j] = 6.283185307179586 * philox::uniform64(word64(chunk.words, 2 * j + 1));
    }
    const T factor = T(-2);
    apply(MX_OP_LOG, radius, radius, nullptr, 0, half);
    apply(MX_OP_MUL, radius, radius, &factor, 2, half);
    apply(MX_OP_SQRT, radius, radius, nullptr, 0, half);
    apply(MX_OP_COS, cosine, angle, nullptr, 0, half);
    apply(MX_OP_SIN, angle, angle, nullptr, 0, half);
    auto* v = reinterpret_cast<T*>(chunk.values);
    for (int64_t j = 0; j < half; ++j) {
      v[2 * j] = radius[j] * cosine[j];
      v[2 * j + 1] = radius[j] * angle[j];
    }
  }

  void draw_integers(Chunk& chunk, int64_t n) const {
    auto* v = reinterpret_cast<int64_t*>(chunk.values);
    const auto low = static_cast<uint64_t>(o_.low);
    const uint64_t range = static_cast<uint64_t>(o_.high) - low;
    for (int64_t i = 0; i < n; ++i)
      v[i] = static_cast<int64_t>(philox::below(word64(chunk.words, i), range) + low);
  }

  const RandomOptions o_;
  const LoopTable& table_;
  const int dtype_;
  const Compute type_;
  const bool wide_;
};

class DropoutPlan final : public Plan {
 public:
  DropoutPlan(std::vector<Spec> inputs, std::vector<Spec> outputs, double p, bool active,
              uint64_t blocks)
      : Plan(std::move(inputs), std::move(outputs)),
        table_(loops()),
        dtype_(inputs_[0].dtype),
        type_(compute_of(dtype_)),
        p_(p),
        active_(active && p > 0),
        threshold_(static_cast<uint32_t>(std::ceil(std::min(p, 1.0) * 0x1p24))) {
    random_blocks = blocks;
    if (inputs_[0].bytes() > kParallelBytes / 4) set_parallel();
  }

 protected:
  void execute(const Call& call) const override {
    const int64_t n = inputs_[0].size(), chunks = (n + kChunk - 1) / kChunk;
    parallel_for(chunks, kGrain, [&](int64_t begin, int64_t end) {
      if (!active_ && !call.adds(0) && !call.adds(1))
        return pass_on(call, begin * kChunk, std::min(end * kChunk, n));
      Chunk chunk;
      for (int64_t c = begin; c < end; ++c)
        type_ == F64 ? drop<double>(call, chunk, c * kChunk, std::min(kChunk, n - c * kChunk))
                     : drop<float>(call, chunk, c * kChunk, std::min(kChunk, n - c * kChunk));
    });
  }

 private:
  // Data as it is, and a mask of ones.
  void pass_on(const Call& call, int64_t begin, int64_t end) const {
    const auto item = static_cast<int64_t>(item_size(dtype_));
    const auto bytes = static_cast<size_t>((end - begin) * item);
    if (call.wanted(0)) std::memmove(call.output(0) + begin * item, call.input(0) + begin * item, bytes);
    if (!call.wanted(1)) return;
    char* const mask = call.output(1) + begin * item;
    const auto fill = [&](auto one) { std::fill_n(reinterpret_cast<decltype(one)*>(mask), end - begin, one); };
    if (dtype_ == MX_FLOAT16) fill(Float16(1.0f).bits);
    else if (dtype_ == MX_BFLOAT16) fill(BFloat16(1.0f).bits);
    else if (dtype_ == MX_FLOAT64) fill(1.0);
    else fill(1.0f);
  }

  template <class T>
  void drop(const Call& call, Chunk& chunk, int64_t first, int64_t n) const {
    const auto size = static_cast<size_t>(n);
    auto* mask = reinterpret_cast<T*>(chunk.values);
    if (active_) {
      draw_words(table_, call.context, false, first, n, chunk.words);
      const auto keep = static_cast<T>(p_ < 1 ? 1 / (1 - p_) : 0.0);
      if constexpr (sizeof(T) == 4) {
        table_.keep(mask, chunk.words, threshold_, keep, size);
      } else {
        auto* ones = reinterpret_cast<float*>(chunk.more);
        table_.keep(ones, chunk.words, threshold_, 1, size);
        table_.load[MX_FLOAT32][F64](mask, ones, size);
        table_.op[F64][MX_OP_MUL][2](mask, mask, &keep, nullptr, size);
      }
      // The mask is rounded to the type it is stored in before data is multiplied with it.
      if (dtype_ != kStorageOf[type_]) {
        table_.store[type_][dtype_](chunk.other, mask, size);
        table_.load[dtype_][type_](mask, chunk.other, size);
      }
    } else {
      std::fill_n(mask, n, T(1));
    }
    // Data first: with both outputs written, the first may be data itself.
    table_.load[dtype_][type_](
        chunk.other, call.input(0) + first * static_cast<int64_t>(item_size(dtype_)), size);
    table_.op[type_][MX_OP_MUL][0](chunk.other, chunk.other, mask, nullptr, size);
    if (call.wanted(0))
      deliver(table_, type_, chunk.other, dtype_, call.output(0), first, n, call.adds(0));
    if (call.wanted(1))
      deliver(table_, type_, mask, dtype_, call.output(1), first, n, call.adds(1));
  }

  const LoopTable& table_;
  const int dtype_;
  const Compute type_;
  const double p_;
  const bool active_;
  const uint32_t threshold_;  // of 24 random bits
};

}  // namespace

PlanPtr make_random_plan(std::vector<Spec> inputs, std::vector<Spec> outputs,
                         const RandomOptions& options) {
  if (outputs.size() != 1) throw Error(MX_ERROR_VALUE, "[" + options.op + "] expected one output");
  return std::make_unique<RandomPlan>(std::move(inputs), std::move(outputs), options);
}

PlanPtr make_dropout_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, double p,
                          bool active, uint64_t blocks) {
  const bool fits = inputs.size() == 1 && outputs.size() == 2 &&
                    inputs[0].shape == outputs[0].shape && inputs[0].shape == outputs[1].shape &&
                    inputs[0].dtype == outputs[0].dtype && inputs[0].dtype == outputs[1].dtype &&
                    known(inputs[0].dtype) &&
                    (compute_of(inputs[0].dtype) == F32 || compute_of(inputs[0].dtype) == F64);
  if (!fits) throw Error(MX_ERROR_UNSUPPORTED, "[Dropout] no loop for this signature");
  return std::make_unique<DropoutPlan>(std::move(inputs), std::move(outputs), p, active, blocks);
}

}  // namespace mx::cpu
