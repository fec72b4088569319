// SPDX-License-Identifier: Apache-2.0
#include "indexing/sequence.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>

#include "elementwise/broadcast.hpp"
#include "simd/loops.hpp"
#include "indexing/strided_copy.hpp"
#include "common/parallel.hpp"
#include "sort/rank.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kFilled = -1;  // a row that is no copy

class RowPlan final : public Plan {
 public:
  RowPlan(std::vector<Spec> inputs, std::vector<Spec> outputs, const RowOptions& options)
      : Plan(std::move(inputs), std::move(outputs), options.rule == RowRule::kMask ? 1 : 0),
        o_(options),
        rows_(o_.rule == RowRule::kLast ? o_.batch : o_.steps * o_.batch),
        table_(loops()) {
    sources_ = add_scratch<int64_t>(rows_);
    if (o_.rule != RowRule::kShuffle) return;
    random_blocks = static_cast<uint64_t>(o_.steps + 1) / 2;
    keys_ = add_scratch(random_blocks * 16);
    rank_ = add_scratch(rank_memory(MX_INT64, o_.steps));
  }

 protected:
  void execute(const Call& call) const override {
    const Spec& spec = outputs_[0];
    if (!call.wanted(0) || spec.bytes() == 0) return;
    auto* sources = call.scratch<int64_t>(sources_);
    find_sources(call, sources);
    char* out = call.target(0);
    const size_t item = item_size(spec.dtype);
    const auto bytes = static_cast<int64_t>(item) * o_.inner;
    alignas(8) char filler[8];
    const double value = o_.rule == RowRule::kMask ? call.scalar(0) : 0.0;
    table_.store[F64][spec.dtype](filler, &value, 1);
    const char* in = call.input(0);
    parallel_for(rows_, std::max<int64_t>(1, (64 << 10) / (bytes + 1)), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        char* to = out + i * bytes;
        if (sources[i] == kFilled) {
          fill(to, filler, o_.inner, item);
        } else if (to != in + sources[i] * bytes) {
          std::memcpy(to, in + sources[i] * bytes, static_cast<size_t>(bytes));
        }
      }
    });
  }

  bool stages(size_t, const uint8_t* req) const override { return req[0] == MX_REQ_ADD; }

 private:
  int64_t row(int64_t step, int64_t n) const {
    return o_.batch_first ? n * o_.steps + step : step * o_.batch + n;
  }

  void find_sources(const Call& call, int64_t* sources) const {
    if (o_.rule == RowRule::kShuffle) return shuffle(call, sources);
    const int64_t lowest = o_.rule == RowRule::kLast || o_.rule == RowRule::kSpread ? 1 : 0;
    for (int64_t n = 0; n < o_.batch; ++n) {
      const int64_t length = o_.lengths ? length_of(call, n, lowest) : o_.steps;
      if (o_.rule == RowRule::kLast) {
        sources[n] = row(length - 1, n);
        continue;
      }
      for (int64_t t = 0; t < o_.steps; ++t) {
        int64_t& source = sources[row(t, n)];
        if (o_.rule == RowRule::kMask) source = t < length ? row(t, n) : kFilled;
        if (o_.rule == RowRule::kReverse) source = row(t < length ? length - 1 - t : t, n);
        if (o_.rule == RowRule::kSpread) source = t == length - 1 ? n : kFilled;
      }
    }
  }

  // A length after the last step masks nothing; other rules need the step it names.
  int64_t length_of(const Call& call, int64_t n, int64_t lowest) const {
    const int dtype = inputs_[*o_.lengths].dtype;
    double length;
    table_.load[dtype][F64](&length, call.input(*o_.lengths) + n * static_cast<int64_t>(item_size(dtype)), 1);
    if (o_.rule == RowRule::kMask) length = std::min(length, static_cast<double>(o_.steps));
    if (!(length >= static_cast<double>(lowest) && length <= static_cast<double>(o_.steps))) {
      char got[32];
      std::snprintf(got, sizeof got, "%g", length);
      throw Error(MX_ERROR_INDEX, "[" + o_.op + "] sequence_length: expected " + std::to_string(lowest) + " to " +
                                      std::to_string(o_.steps) + ", got " + got);
    }
    return static_cast<int64_t>(length);
  }

  // The order of uniform 53-bit keys, which are integers here.
  void shuffle(const Call& call, int64_t* sources) const {
    const auto n = static_cast<size_t>(o_.steps);
    auto* words = call.scratch<uint32_t>(keys_);
    table_.philox(words, call.context.random_key, call.context.random_offset, 0, (n + 1) / 2);
    auto* keys = reinterpret_cast<int64_t*>(words);
    for (size_t i = 0; i < n; ++i)
      keys[i] = static_cast<int64_t>((uint64_t{words[2 * i + 1]} << 32 | words[2 * i]) >> 11);
    rank(MX_INT64, reinterpret_cast<const char*>(keys), 1, o_.steps, o_.steps, true,
         call.scratch(rank_), sources);
  }

  const RowOptions o_;
  const int64_t rows_;  // of the output
  Section sources_, keys_, rank_;
  const LoopTable& table_;
};

}  // namespace

PlanPtr make_row_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const RowOptions& o) {
  const auto fail = [&] { throw Error(MX_ERROR_SHAPE, "[" + o.op + "] the sequences do not fit the arrays"); };
  if (inputs.empty() || outputs.size() != 1 || o.steps < 0 || o.batch < 0 || o.inner < 0) fail();
  const int64_t all = o.steps * o.batch * o.inner, some = o.batch * o.inner;
  if (inputs[0].dtype != outputs[0].dtype || inputs[0].size() != (o.rule == RowRule::kSpread ? some : all) ||
      outputs[0].size() != (o.rule == RowRule::kLast ? some : all))
    fail();
  if (o.lengths && (*o.lengths >= inputs.size() || inputs[*o.lengths].size() != o.batch)) fail();
  if (o.rule == RowRule::kShuffle && (o.batch != 1 || o.steps > INT32_MAX)) fail();
  if ((o.rule == RowRule::kLast || o.rule == RowRule::kSpread) && o.steps == 0) fail();
  return std::make_unique<RowPlan>(std::move(inputs), std::move(outputs), o);
}

}  // namespace mx::cpu
