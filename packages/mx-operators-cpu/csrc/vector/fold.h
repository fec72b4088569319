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

// Independent lanes let the compiler vectorise without reordering, and shorten the chains of
// roundings: the error grows with n / kLanes.
constexpr size_t kLanes = 64;

template <ReduceOp Op, class T>
void fold_row(void* accumulator, const void* in, size_t n) {
  auto* x = static_cast<const T*>(in);
  T& result = *static_cast<T*>(accumulator);
  if (n >= kLanes) {
    T lane[kLanes];
    for (size_t k = 0; k < kLanes; ++k) lane[k] = neutral<Op, T>();
    for (; n >= kLanes; n -= kLanes, x += kLanes)
      for (size_t k = 0; k < kLanes; ++k) lane[k] = fold_one<Op>(lane[k], x[k]);
    for (size_t width = kLanes / 2; width > 0; width /= 2)
      for (size_t k = 0; k < width; ++k) lane[k] = join<Op>(lane[k], lane[k + width]);
    result = join<Op>(result, lane[0]);
  }
  for (size_t i = 0; i < n; ++i) result = fold_one<Op>(result, x[i]);
}

template <ReduceOp Op, class T>
void fold_columns(void* accumulator, const void* in, size_t n) {
  auto* o = static_cast<T*>(accumulator);
  auto* x = static_cast<const T*>(in);
  MX_INDEPENDENT
  for (size_t i = 0; i < n; ++i) o[i] = fold_one<Op>(o[i], x[i]);
}

template <ReduceOp Op>
void put_fold(LoopTable& table) {
  table.fold_row[F32][Op] = fold_row<Op, float>;
  table.fold_row[F64][Op] = fold_row<Op, double>;
  table.fold_row[I32][Op] = fold_row<Op, int32_t>;
  table.fold_row[I64][Op] = fold_row<Op, int64_t>;
  table.fold_columns[F32][Op] = fold_columns<Op, float>;
  table.fold_columns[F64][Op] = fold_columns<Op, double>;
  table.fold_columns[I32][Op] = fold_columns<Op, int32_t>;
  table.fold_columns[I64][Op] = fold_columns<Op, int64_t>;
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
}
