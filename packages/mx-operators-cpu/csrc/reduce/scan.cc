// SPDX-License-Identifier: Apache-2.0
#include "reduce/scan.hpp"

#include <algorithm>

#include "common/clones.hpp"
#include "common/parallel.hpp"
#include "common/upcast.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kChunk = 16 << 10;  // elements of a long row that are summed apart
constexpr int64_t kColumns = 256;     // columns summed together
constexpr int64_t kBlock = 8;         // elements whose sums do not wait for those before

template <class T> struct SumOf { using type = T; };
template <> struct SumOf<float> { using type = double; };

// Running sums of a row from `carry` on, which becomes the last one.  step: 1, or -1 from the end.
template <class T, class Sum>
void scan_row(T* to, const T* from, int64_t n, int64_t step, Sum& carry) {
  int64_t i = 0;
  Sum local[kBlock];
  for (; i + kBlock <= n; i += kBlock) {
    local[0] = static_cast<Sum>(from[i * step]);
    for (int64_t j = 1; j < kBlock; ++j) local[j] = local[j - 1] + static_cast<Sum>(from[(i + j) * step]);
    for (int64_t j = 0; j < kBlock; ++j) to[(i + j) * step] = static_cast<T>(carry + local[j]);
    carry += local[kBlock - 1];
  }
  for (; i < n; ++i) to[i * step] = static_cast<T>(carry += static_cast<Sum>(from[i * step]));
}

// What `scan_row` adds to its carry, in the same order.
template <class T, class Sum>
Sum sum_row(const T* from, int64_t n, int64_t step, Sum carry) {
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    Sum local = static_cast<Sum>(from[i * step]);
    for (int64_t j = 1; j < kBlock; ++j) local += static_cast<Sum>(from[(i + j) * step]);
    carry += local;
  }
  for (; i < n; ++i) carry += static_cast<Sum>(from[i * step]);
  return carry;
}

template <class T, class Sum>
MX_INLINE void add_columns(T* __restrict to, const T* __restrict from, Sum* __restrict sums, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(sums[i] += static_cast<Sum>(from[i]));
}
MX_CLONES(void, add_float, (float* __restrict to, const float* __restrict from, double* __restrict sums, int64_t n),
          (to, from, sums, n)) {
  add_columns(to, from, sums, n);
}
template <class T, class Sum>
void add_row(T* to, const T* from, Sum* sums, int64_t n) {
  if constexpr (std::is_same_v<T, float>) {
    add_float(to, from, sums, n);
  } else {
    add_columns(to, from, sums, n);
  }
}

class ScanPlan final : public UpcastPlan {
 public:
  ScanPlan(std::vector<Spec> inputs, std::vector<Spec> outputs, const ScanOptions& options)
      : UpcastPlan(inputs, outputs, floating(outputs[0].dtype) ? outputs[0].dtype : int{MX_FLOAT32}, outputs[0].size()),
        o_(options),
        before_(add_scratch<double>(o_.inner > 1 ? 0 : chunks() + 1)) {}

 protected:
  void execute(const Call& call) const override {
    switch (outputs_[0].dtype) {
      case MX_INT32:
        return compute<int32_t>(call);
      case MX_INT64:
        return compute<int64_t>(call);
      default:
        return type_ == F64 ? compute<double>(call) : compute<float>(call);
    }
  }

 private:
  template <class T>
  void compute(const Call& call) const {
    Result<T> output(*this, call, 0);
    if (output.data() == nullptr || outputs_[0].size() == 0) return;
    const T* data = read<T>(call, 0);
    if (o_.inner > 1) {
      columns(data, output.data());
    } else if (o_.outer >= int64_t{threads()} || o_.extent <= 2 * kChunk) {
      parallel_for(o_.outer, std::max<int64_t>(kChunk / o_.extent, 1), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) scan_chunks(data + row * o_.extent, output.data() + row * o_.extent);
      });
    } else {
      for (int64_t row = 0; row < o_.outer; ++row) long_row(call, data + row * o_.extent, output.data() + row * o_.extent);
    }
    output.deliver();
  }

  int64_t chunks() const { return (o_.extent + kChunk - 1) / kChunk; }
  int64_t step() const { return o_.reverse ? -1 : 1; }
  // The first element of a chunk, and how many it has.
  int64_t first(int64_t chunk) const { return o_.reverse ? o_.extent - 1 - chunk * kChunk : chunk * kChunk; }
  int64_t size(int64_t chunk) const { return std::min(kChunk, o_.extent - chunk * kChunk); }

  template <class T>
  void scan_chunks(const T* from, T* to) const {
    using Sum = typename SumOf<T>::type;
    Sum before = 0;
    for (int64_t c = 0; c < chunks(); ++c) {
      Sum carry = before;
      const Sum own = c + 1 < chunks() ? sum_row(from + first(c), size(c), step(), Sum(0)) : Sum(0);
      scan_row(to + first(c), from + first(c), size(c), step(), carry);
      before += own;
    }
  }

  template <class T>
  void long_row(const Call& call, const T* from, T* to) const {
    using Sum = typename SumOf<T>::type;
    Sum* before = call.scratch<Sum>(before_);
    before[0] = Sum(0);
    parallel_for(chunks(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c)
        before[c + 1] = sum_row(from + first(c), size(c), step(), Sum(0));
    });
    for (int64_t c = 1; c <= chunks(); ++c) before[c] += before[c - 1];
    parallel_for(chunks(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        Sum carry = before[c];
        scan_row(to + first(c), from + first(c), size(c), step(), carry);
      }
    });
  }

  template <class T>
  void columns(const T* from, T* to) const {
    using Sum = typename SumOf<T>::type;
    const int64_t blocks = (o_.inner + kColumns - 1) / kColumns;
    parallel_for(o_.outer * blocks, 1, [&](int64_t begin, int64_t end) {
      alignas(64) Sum sums[kColumns];
      for (int64_t task = begin; task < end; ++task) {
        const int64_t start = task % blocks * kColumns, n = std::min(kColumns, o_.inner - start);
        const int64_t base = task / blocks * o_.extent * o_.inner + start;
        std::fill_n(sums, n, Sum(0));
        for (int64_t i = 0; i < o_.extent; ++i) {
          const int64_t at = base + (o_.reverse ? o_.extent - 1 - i : i) * o_.inner;
          add_row(to + at, from + at, sums, n);
        }
      }
    });
  }

  const ScanOptions o_;
  const Section before_;  // sums of the chunks in front of each
};

}  // namespace

PlanPtr make_scan_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const ScanOptions& o) {
  if (inputs.empty() || outputs.size() != 1) throw Error(MX_ERROR_VALUE, "[cumsum] expected an input and an output");
  fits(o.outer >= 0 && o.extent >= 0 && o.inner >= 0 && inputs[0].size() == o.outer * o.extent * o.inner &&
           inputs[0].size() == outputs[0].size(),
       "cumsum");
  const int dtype = outputs[0].dtype;
  const bool loops = floating(dtype) || dtype == MX_INT32 || dtype == MX_INT64;
  if (!loops || inputs[0].dtype != dtype)
    throw Error(MX_ERROR_UNSUPPORTED, "[cumsum] no loops for type code " + std::to_string(dtype));
  return std::make_unique<ScanPlan>(std::move(inputs), std::move(outputs), o);
}

}  // namespace mx::cpu
