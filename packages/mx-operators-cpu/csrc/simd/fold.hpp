// SPDX-License-Identifier: Apache-2.0
//
// Folding arrays into accumulators.  Included by each instruction set's translation unit, inside
// its own namespace.

template <ReduceOp Op, class T>
inline T fold_one(T accumulator, T x) {
  if constexpr (Op == kSum) return accumulator + x;
  if constexpr (Op == kProd) return accumulator * x;
  if constexpr (Op == kMax) return Maximum::apply(accumulator, x);
  if constexpr (Op == kMin) return Minimum::apply(accumulator, x);
  if constexpr (Op == kNanSum) return accumulator + (x != x ? T(0) : x);
  if constexpr (Op == kNanProd) return accumulator * (x != x ? T(1) : x);
  if constexpr (Op == kSumAbs) return accumulator + Abs::apply(x);
  if constexpr (Op == kSumSquare) return accumulator + x * x;
}
// Joins two partial results.
template <ReduceOp Op, class T>
inline T join(T a, T b) {
  if constexpr (Op == kProd || Op == kNanProd) return a * b;
  if constexpr (Op == kMax) return Maximum::apply(a, b);
  if constexpr (Op == kMin) return Minimum::apply(a, b);
  return a + b;
}
template <ReduceOp Op, class T>
inline T neutral() {
  if constexpr (Op == kProd || Op == kNanProd) return T(1);
  if constexpr (Op == kMax || Op == kMin) {
    if constexpr (kIsFloat<T>) return Op == kMax ? T(-kInf) : T(kInf);
    constexpr T top = static_cast<T>(static_cast<uint64_t>(-1) >> (65 - 8 * sizeof(T)));
    return Op == kMax ? T(-top - 1) : top;
  }
  return T(0);
}

template <class T>
MX_INLINE typename LanesOf<T>::Vector load_lanes(const T* from) {
  typename LanesOf<T>::Vector v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}

template <ReduceOp Op, class Vector>
MX_INLINE Vector fold_lanes(Vector a, Vector x) {
  const Vector zero = {};
  if constexpr (Op == kSum) return a + x;
  if constexpr (Op == kProd) return a * x;
  if constexpr (Op == kMax) return a != a ? a : (a > x ? a : x);
  if constexpr (Op == kMin) return a != a ? a : (a < x ? a : x);
  if constexpr (Op == kNanSum) return a + (x != x ? zero : x);
  if constexpr (Op == kNanProd) return a * (x != x ? zero + 1 : x);
  if constexpr (Op == kSumAbs) return a + (x < zero ? zero - x : x);
  if constexpr (Op == kSumSquare) return a + x * x;
}

// Joins two partial results, lane by lane.
template <ReduceOp Op, class Vector>
MX_INLINE Vector join_lanes(Vector a, Vector b) {
  if constexpr (Op == kMax || Op == kMin) return fold_lanes<Op>(a, b);
  return Op == kProd || Op == kNanProd ? a * b : a + b;
}

// Independent accumulators hide the latency of one; runs of 32 shorten the chains of roundings.
template <ReduceOp Op, class T>
void fold_row(void* accumulator, const void* in, size_t n) {
  constexpr size_t kWidth = LanesOf<T>::count, kChains = 4, kStep = kChains * kWidth, kRun = 32;
  auto* x = static_cast<const T*>(in);
  T& result = *static_cast<T*>(accumulator);
  if (n >= kWidth) {
    const auto start = neutral<Op, T>() - typename LanesOf<T>::Vector{};
    typename LanesOf<T>::Vector total[kChains], chain[kChains];
    for (size_t k = 0; k < kChains; ++k) total[k] = start;
    while (n >= kStep) {
      size_t steps = n / kStep < kRun ? n / kStep : kRun;
      n -= steps * kStep;
      for (size_t k = 0; k < kChains; ++k) chain[k] = start;
      for (; steps > 0; --steps, x += kStep)
        for (size_t k = 0; k < kChains; ++k)
          chain[k] = fold_lanes<Op>(chain[k], load_lanes(x + k * kWidth));
      for (size_t k = 0; k < kChains; ++k) total[k] = join_lanes<Op>(total[k], chain[k]);
    }
    for (; n >= kWidth; n -= kWidth, x += kWidth) total[0] = fold_lanes<Op>(total[0], load_lanes(x));
    T lane[kStep];
    __builtin_memcpy(lane, total, sizeof total);
    for (size_t width = kStep / 2; width > 0; width /= 2)
      for (size_t k = 0; k < width; ++k) lane[k] = join<Op>(lane[k], lane[k + width]);
    result = join<Op>(result, lane[0]);
  }
  for (size_t i = 0; i < n; ++i) result = fold_one<Op>(result, x[i]);
}

// The extremum of floating-point numbers: NaN is looked for apart, in the largest magnitude.
template <ReduceOp Op, class T>
void fold_extremum(void* accumulator, const void* in, size_t n) {
  using L = LanesOf<T>;
  using Integer = typename L::Integer;
  constexpr size_t kChains = 4;
  constexpr Integer kInfinite = sizeof(T) == 8 ? Integer(0x7ff0000000000000) : Integer(0x7f800000);
  auto* x = static_cast<const T*>(in);
  T& result = *static_cast<T*>(accumulator);
  if (n >= kChains * L::count) {
    typename L::Vector best[kChains];
    typename L::Bits largest[kChains] = {};
    for (size_t k = 0; k < kChains; ++k) best[k] = neutral<Op, T>() - typename L::Vector{};
    for (; n >= kChains * L::count; n -= kChains * L::count, x += kChains * L::count)
      for (size_t k = 0; k < kChains; ++k) {
        const auto v = load_lanes(x + k * L::count);
        const auto magnitude =
            (typename L::Bits)v & static_cast<Integer>(~(Integer(1) << (8 * sizeof(T) - 1)));
        best[k] = Op == kMax ? (best[k] > v ? best[k] : v) : (best[k] < v ? best[k] : v);
        largest[k] = largest[k] > magnitude ? largest[k] : magnitude;
      }
    for (size_t k = 1; k < kChains; ++k) {
      best[0] = fold_lanes<Op>(best[0], best[k]);
      largest[0] = largest[0] > largest[k] ? largest[0] : largest[k];
    }
    for (size_t i = 0; i < L::count; ++i)
      result = join<Op>(result, largest[0][i] > kInfinite ? T(kNan) : best[0][i]);
  }
  for (size_t i = 0; i < n; ++i) result = fold_one<Op>(result, x[i]);
}

// One number of all lanes, in lane 0.
template <ReduceOp Op>
MX_INLINE float fold_across(typename LanesOf<float>::Vector a) {
  using Bits = typename LanesOf<float>::Bits;
  a = join_lanes<Op>(a, __builtin_shuffle(a, Bits{8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7}));
  a = join_lanes<Op>(a, __builtin_shuffle(a, Bits{4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11}));
  a = join_lanes<Op>(a, __builtin_shuffle(a, Bits{2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13}));
  a = join_lanes<Op>(a, __builtin_shuffle(a, Bits{1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14}));
  return a[0];
}

// out[r] = in[r][0] (+) in[r][1] ...: short rows one after the other, their last lanes by a load that
// overlaps what is folded already.
template <ReduceOp Op>
void fold_rows(float* out, const float* x, size_t rows, size_t n) {
  using L = LanesOf<float>;
  constexpr size_t kWidth = L::count, kChains = 4;
  const auto start = neutral<Op, float>() - typename L::Vector{};
  if (n < kWidth) {
    for (size_t r = 0; r < rows; ++r, x += n) {
      float total = neutral<Op, float>();
      for (size_t i = 0; i < n; ++i) total = fold_one<Op>(total, x[i]);
      out[r] = total;
    }
    return;
  }
  if constexpr (Op == kMax || Op == kMin)
    if (n >= 256) {
      for (size_t r = 0; r < rows; ++r, x += n) {
        out[r] = neutral<Op, float>();
        fold_extremum<Op, float>(out + r, x, n);
      }
      return;
    }
  const size_t rest = n % kWidth;
  typename L::Bits fresh;  // lanes of the last load that are not folded yet
  for (size_t k = 0; k < kWidth; ++k) fresh[k] = k + rest >= kWidth ? -1 : 0;
  for (size_t r = 0; r < rows; ++r, x += n) {
    for (size_t i = 0; i < n; i += kWidth) __builtin_prefetch(x + i + kAhead);
    typename L::Vector chain[kChains];
    for (size_t k = 0; k < kChains; ++k) chain[k] = start;
    size_t i = 0;
    for (; i + kChains * kWidth <= n; i += kChains * kWidth)
      for (size_t k = 0; k < kChains; ++k) chain[k] = fold_lanes<Op>(chain[k], load_lanes(x + i + k * kWidth));
    for (; i + kWidth <= n; i += kWidth) chain[0] = fold_lanes<Op>(chain[0], load_lanes(x + i));
    if (rest != 0) {
      const auto folded = fold_lanes<Op>(chain[1], load_lanes(x + n - kWidth));
      chain[1] = fresh != 0 ? folded : chain[1];
    }
    out[r] = fold_across<Op>(join_lanes<Op>(join_lanes<Op>(chain[0], chain[1]), join_lanes<Op>(chain[2], chain[3])));
  }
}

template <ReduceOp Op, class T>
void fold_columns(void* accumulator, const void* in, size_t n) {
  auto* o = static_cast<T*>(accumulator);
  auto* x = static_cast<const T*>(in);
  MX_INDEPENDENT
  for (size_t i = 0; i < n; ++i) o[i] = fold_one<Op>(o[i], x[i]);
}

template <ReduceOp Op, class T>
void fold_four(void* accumulator, const void* const in[4], size_t n) {
  auto* o = static_cast<T*>(accumulator);
  const T* x[4];
  for (int k = 0; k < 4; ++k) x[k] = static_cast<const T*>(in[k]);
  size_t i = 0;
  for (; i + LanesOf<T>::count <= n; i += LanesOf<T>::count) {
    auto a = load_lanes(o + i);
    for (int k = 0; k < 4; ++k) a = fold_lanes<Op>(a, load_lanes(x[k] + i));
    __builtin_memcpy(o + i, &a, sizeof a);
  }
  for (; i < n; ++i)
    for (int k = 0; k < 4; ++k) o[i] = fold_one<Op>(o[i], x[k][i]);
}

// Partial results in float32 go to those in double.
template <ReduceOp Op>
void widen(double* total, const float* partial, size_t n) {
  MX_INDEPENDENT
  for (size_t i = 0; i < n; ++i) total[i] = join<Op>(total[i], static_cast<double>(partial[i]));
}

// Where row `index` is better than the best so far, it is the best and the one that is found.
template <class T>
void best_of(void* best, int32_t* found, const void* row, int32_t index, bool largest, size_t n) {
  auto* b = static_cast<T*>(best);
  auto* x = static_cast<const T*>(row);
  const T sign = largest ? T(1) : T(0);
  MX_INDEPENDENT
  for (size_t i = 0; i < n; ++i) {
    const bool beyond = sign != T(0) ? x[i] > b[i] : x[i] < b[i];
    const bool take = beyond | ((x[i] != x[i]) & (b[i] == b[i]));
    b[i] = take ? x[i] : b[i];
    found[i] = take ? index : found[i];
  }
}

template <ReduceOp Op>
void put_fold(LoopTable& table) {
  table.widen[Op] = widen<Op>;
  table.fold_rows[Op] = fold_rows<Op>;
  table.fold_row[F32][Op] = fold_row<Op, float>;
  table.fold_row[F64][Op] = fold_row<Op, double>;
  table.fold_row[I32][Op] = fold_row<Op, int32_t>;
  table.fold_row[I64][Op] = fold_row<Op, int64_t>;
  if constexpr (Op == kMax || Op == kMin) {
    table.fold_row[F32][Op] = fold_extremum<Op, float>;
    table.fold_row[F64][Op] = fold_extremum<Op, double>;
  }
  table.fold_columns[F32][Op] = fold_columns<Op, float>;
  table.fold_four[F32][Op] = fold_four<Op, float>;
  table.fold_columns[F64][Op] = fold_columns<Op, double>;
  table.fold_four[F64][Op] = fold_four<Op, double>;
  table.fold_columns[I32][Op] = fold_columns<Op, int32_t>;
  table.fold_four[I32][Op] = fold_four<Op, int32_t>;
  table.fold_columns[I64][Op] = fold_columns<Op, int64_t>;
  table.fold_four[I64][Op] = fold_four<Op, int64_t>;
}

inline void put_folds(LoopTable& table) {
  put_fold<kSum>(table);
  put_fold<kProd>(table);
  put_fold<kMax>(table);
  put_fold<kMin>(table);
  put_fold<kNanSum>(table);
  put_fold<kNanProd>(table);
  put_fold<kSumAbs>(table);
  put_fold<kSumSquare>(table);
  table.best_of[F32] = best_of<float>;
  table.best_of[F64] = best_of<double>;
  table.best_of[I32] = best_of<int32_t>;
  table.best_of[I64] = best_of<int64_t>;
}
