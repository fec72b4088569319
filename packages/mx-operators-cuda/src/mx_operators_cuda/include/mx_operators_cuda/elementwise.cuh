// SPDX-License-Identifier: Apache-2.0
//
// Device functions of generated elementwise kernels: element types, conversions, vectors of
// elements, and one function per opcode of mx_core/expression.h for every compute type (float,
// double, int, long long).  The definition they follow is mx_core.expression.evaluate.
//
// Needs a CUDA compiler and no header of the CUDA toolkit, so NVRTC alone builds it.
#pragma once

namespace mx {

using int8 = signed char;
using uint8 = unsigned char;
using int16 = short;
using uint16 = unsigned short;
using int32 = int;
using uint32 = unsigned int;
using int64 = long long;
using uint64 = unsigned long long;

struct half { uint16 bits; };
struct bfloat16 { uint16 bits; };
struct boolean { uint8 byte; };

enum Request { kNull = 0, kWrite = 1, kInPlace = 2, kAdd = 3 };

// A number that a launch gives, or whose place it gives: a captured launch reads it there at every run.
template <class T> struct Given {
  T value;
  const T* place;  // null: the value
  __device__ operator T() const { return place == nullptr ? value : *place; }
};
using Scalar = Given<double>;
using Counter = Given<uint64>;

// ---- what the element types are ----

template <class A, class B> inline constexpr bool is_same = false;
template <class A> inline constexpr bool is_same<A, A> = true;
template <class T> inline constexpr bool is_floating = is_same<T, float> || is_same<T, double>;

template <class T> struct limits;
template <> struct limits<int8> { static constexpr int8 low = -128, high = 127; };
template <> struct limits<uint8> { static constexpr uint8 low = 0, high = 255; };
template <> struct limits<int16> { static constexpr int16 low = -32768, high = 32767; };
template <> struct limits<uint16> { static constexpr uint16 low = 0, high = 65535; };
template <> struct limits<int32> { static constexpr int32 low = -2147483647 - 1, high = 2147483647; };
template <> struct limits<uint32> { static constexpr uint32 low = 0, high = 4294967295u; };
template <> struct limits<int64> {
  static constexpr int64 low = -9223372036854775807LL - 1, high = 9223372036854775807LL;
};
template <> struct limits<uint64> { static constexpr uint64 low = 0, high = 18446744073709551615ull; };

template <class T> struct unsigned_of { using type = T; };
template <> struct unsigned_of<int32> { using type = uint32; };
template <> struct unsigned_of<int64> { using type = uint64; };
template <class T> using Unsigned = typename unsigned_of<T>::type;

template <class T> __device__ inline T infinity() {
  return static_cast<T>(__longlong_as_double(0x7ff0000000000000LL));
}
template <class T> __device__ inline T not_a_number() {
  return static_cast<T>(__longlong_as_double(0x7ff8000000000000LL));
}

// ---- conversions ----

#ifdef __CUDACC__
__device__ inline float widen(half x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
__device__ inline half to_half(float x) {
  half y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
__device__ inline bfloat16 to_bfloat16(float x) {
  bfloat16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
#else
__device__ float widen(half x);
__device__ half to_half(float x);
__device__ bfloat16 to_bfloat16(float x);
#endif

__device__ inline float widen(bfloat16 x) { return __uint_as_float(static_cast<uint32>(x.bits) << 16); }
__device__ inline int32 widen(boolean x) { return x.byte != 0; }
template <class T> __device__ inline T widen(T x) { return x; }

// A float that rounds on to 16 bits as if the double had been rounded once: round to odd.
__device__ inline float narrowed(double x) {
  const float y = __double2float_rz(x);
  const bool exact = static_cast<double>(y) == x || x != x;
  return exact ? y : __uint_as_float(__float_as_uint(y) | 1u);
}
template <class T> __device__ inline float narrowed(T x) { return static_cast<float>(x); }

template <class T> struct truncation_of { using type = int32; };
template <> struct truncation_of<uint32> { using type = int64; };
template <> struct truncation_of<int64> { using type = int64; };
template <> struct truncation_of<uint64> { using type = int64; };

// Truncated to int32 or int64, then wrapped around; what these do not hold, NaN too, is their lowest value.
template <class To, class From> __device__ inline To truncated(From x) {
  using Signed = typename truncation_of<To>::type;
  const From lowest = static_cast<From>(limits<Signed>::low);
  return static_cast<To>(static_cast<Signed>(x >= lowest && x < -lowest ? x : lowest));
}

template <class To, class From> __device__ inline To convert(From stored) {
  const auto x = widen(stored);
  using Wide = decltype(widen(stored));
  if constexpr (is_same<To, boolean>) {
    return boolean{static_cast<uint8>(x != Wide(0))};
  } else if constexpr (is_same<To, half>) {
    return to_half(narrowed(x));
  } else if constexpr (is_same<To, bfloat16>) {
    return to_bfloat16(narrowed(x));
  } else if constexpr (is_floating<Wide> && !is_floating<To>) {
    return truncated<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

// ---- memory ----

template <class T, int N> struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) Pack { T at[N]; };

template <int N, class T> __device__ inline bool packable(const T* data) {
  return reinterpret_cast<uint64>(data) % alignof(Pack<T, N>) == 0;
}
template <int N, class T> __device__ inline Pack<T, N> load_pack(const T* data, uint64 i) {
  return reinterpret_cast<const Pack<T, N>*>(data)[i];
}

// `request` is the same for all threads, so these branches do not diverge.
template <class T, class V> __device__ inline void store(T* data, uint64 i, int request, V value) {
  if (request == kNull) return;
  if (request == kAdd) {
    if constexpr (is_floating<V>) {
      value += convert<V>(data[i]);
    } else {
      value = static_cast<V>(Unsigned<V>(value) + Unsigned<V>(convert<V>(data[i])));
    }
  }
  data[i] = convert<T>(value);
}
template <class T, int N, class V>
__device__ inline void store_pack(T* data, uint64 i, int request, const Pack<V, N>& values) {
  if (request == kNull) return;
  auto* packs = reinterpret_cast<Pack<T, N>*>(data);
  Pack<T, N> out;
  if (request == kAdd) out = packs[i];
#pragma unroll
  for (int k = 0; k < N; ++k) store(out.at, k, request, values.at[k]);
  packs[i] = out;
}

// ---- arithmetic: integers wrap around, a / 0 and a % 0 are 0 ----

template <class T> __device__ inline T add(T a, T b) { return T(Unsigned<T>(a) + Unsigned<T>(b)); }
template <class T> __device__ inline T sub(T a, T b) { return T(Unsigned<T>(a) - Unsigned<T>(b)); }
template <class T> __device__ inline T mul(T a, T b) { return T(Unsigned<T>(a) * Unsigned<T>(b)); }
template <class T> __device__ inline T neg(T a) {
  if constexpr (is_floating<T>) return -a;
  else return sub(T(0), a);
}

template <class T> __device__ inline T div(T a, T b) {
  if constexpr (is_floating<T>) {
    return a / b;
  } else {
    if (b == 0) return 0;
    return b == -1 ? neg(a) : a / b;  // the lowest number over -1 would trap on some machines
  }
}

// The sign of b.
template <class T> __device__ inline T mod(T a, T b) {
  if constexpr (is_floating<T>) {
    if (b == 0) return 0;
    T r;
    if constexpr (is_same<T, float>) r = fmodf(a, b);
    else r = fmod(a, b);
    if (r == 0) return b < 0 ? -T(0) : T(0);
    return (b < 0) != (r < 0) ? r + b : r;
  } else {
    if (b == 0 || b == -1) return 0;
    const T r = a % b;
    return r != 0 && (b < 0) != (r < 0) ? r + b : r;
  }
}

template <class T> __device__ inline T maximum(T a, T b) { return a > b || a != a ? a : b; }
template <class T> __device__ inline T minimum(T a, T b) { return a < b || a != a ? a : b; }
template <class T> __device__ inline T absolute(T a) {
  if constexpr (is_same<T, float>) return fabsf(a);
  else if constexpr (is_same<T, double>) return fabs(a);
  else return a < 0 ? neg(a) : a;
}
template <class T> __device__ inline T sign(T a) { return a > 0 ? T(1) : a < 0 ? T(-1) : a; }
template <class T> __device__ inline T square(T a) { return mul(a, a); }
template <class T> __device__ inline T relu(T a) { return a <= 0 ? T(0) : a; }

// ---- comparisons and logic yield 1 or 0 ----

template <class T> __device__ inline T equal(T a, T b) { return a == b; }
template <class T> __device__ inline T not_equal(T a, T b) { return a != b; }
template <class T> __device__ inline T less(T a, T b) { return a < b; }
template <class T> __device__ inline T less_equal(T a, T b) { return a <= b; }
template <class T> __device__ inline T greater(T a, T b) { return a > b; }
template <class T> __device__ inline T greater_equal(T a, T b) { return a >= b; }
template <class T> __device__ inline T logical_not(T a) { return a == 0; }
template <class T> __device__ inline T logical_and(T a, T b) { return a != 0 && b != 0; }
template <class T> __device__ inline T logical_or(T a, T b) { return a != 0 || b != 0; }
template <class T> __device__ inline T logical_xor(T a, T b) { return (a != 0) != (b != 0); }
template <class T> __device__ inline T where(T c, T a, T b) { return c != 0 ? a : b; }
template <class T> __device__ inline T is_nan(T a) { return a != a; }
template <class T> __device__ inline T is_infinite(T a) {
  if constexpr (is_floating<T>) return absolute(a) == infinity<T>();
  else return 0;
}
template <class T> __device__ inline T is_finite(T a) { return a - a == 0; }

// Through another element type and back.
template <class S, class T> __device__ inline T cast(T a) { return convert<T>(convert<S>(a)); }

// ---- rounding leaves integers alone ----

#define MX_ROUNDING(name, single, wide)                                 \
  template <class T> __device__ inline T name(T a) {                    \
    if constexpr (is_same<T, float>) return single(a);                  \
    else if constexpr (is_same<T, double>) return wide(a);              \
    else return a;                                                      \
  }
MX_ROUNDING(round_away, ::roundf, ::round)
MX_ROUNDING(round_even, ::rintf, ::rint)
MX_ROUNDING(floor, ::floorf, ::floor)
MX_ROUNDING(ceil, ::ceilf, ::ceil)
MX_ROUNDING(trunc, ::truncf, ::trunc)
#undef MX_ROUNDING

// Of integers exact, and wraps as products do. What a negative exponent gives is truncated; that of 0 is the lowest
// number.
template <class T> __device__ inline T power(T a, T b) {
  if constexpr (is_same<T, float>) {
    return ::powf(a, b);
  } else if constexpr (is_same<T, double>) {
    return ::pow(a, b);
  } else {
    if (b < 0) {
      if (a == 0) return convert<T>(-infinity<double>());
      return a == 1 || a == -1 ? ((b & 1) != 0 ? a : T(1)) : T(0);
    }
    unsigned long long result = 1, factor = static_cast<unsigned long long>(a);
    for (T left = b; left != 0; left >>= 1) {
      if ((left & 1) != 0) result *= factor;
      factor *= factor;
    }
    return static_cast<T>(result);
  }
}

// ---- functions without an integer meaning: integers go through double and are truncated ----

#define MX_UNARY(name, single, wide)                                              \
  template <class T> __device__ inline T name(T a) {                              \
    if constexpr (is_same<T, float>) return single(a);                            \
    else return convert<T>(wide(static_cast<double>(a)));                         \
  }
#define MX_BINARY(name, single, wide)                                             \
  template <class T> __device__ inline T name(T a, T b) {                         \
    if constexpr (is_same<T, float>) return single(a, b);                         \
    else return convert<T>(wide(static_cast<double>(a), static_cast<double>(b))); \
  }

MX_BINARY(hypot, ::hypotf, ::hypot)
MX_BINARY(arctan2, ::atan2f, ::atan2)
MX_UNARY(sqrt, ::sqrtf, ::sqrt)
MX_UNARY(rsqrt, ::rsqrtf, ::rsqrt)
MX_UNARY(cbrt, ::cbrtf, ::cbrt)
MX_UNARY(rcbrt, ::rcbrtf, ::rcbrt)
MX_UNARY(exp, ::expf, ::exp)
MX_UNARY(expm1, ::expm1f, ::expm1)
MX_UNARY(log, ::logf, ::log)
MX_UNARY(log1p, ::log1pf, ::log1p)
MX_UNARY(log2, ::log2f, ::log2)
MX_UNARY(log10, ::log10f, ::log10)
MX_UNARY(sin, ::sinf, ::sin)
MX_UNARY(cos, ::cosf, ::cos)
MX_UNARY(tan, ::tanf, ::tan)
MX_UNARY(arcsin, ::asinf, ::asin)
MX_UNARY(arccos, ::acosf, ::acos)
MX_UNARY(arctan, ::atanf, ::atan)
MX_UNARY(sinh, ::sinhf, ::sinh)
MX_UNARY(cosh, ::coshf, ::cosh)
MX_UNARY(tanh, ::tanhf, ::tanh)
MX_UNARY(arcsinh, ::asinhf, ::asinh)
MX_UNARY(arccosh, ::acoshf, ::acosh)
MX_UNARY(arctanh, ::atanhf, ::atanh)
MX_UNARY(erf, ::erff, ::erf)
MX_UNARY(erfinv, ::erfinvf, ::erfinv)
MX_UNARY(gammaln, ::lgammaf, ::lgamma)
MX_UNARY(gamma, ::tgammaf, ::tgamma)

// Reflection, recurrence to 10, asymptotic series (Abramowitz and Stegun 6.3.7, 6.3.5, 6.3.18), in
// double for every type: the reflection cancels.
__device__ inline double digamma_double(double a) {
  constexpr double kPi = 3.141592653589793;
  if (a != a || a == -infinity<double>()) return not_a_number<double>();
  if (a == infinity<double>()) return a;
  double result = 0;
  if (a <= 0) {
    if (a == ::floor(a)) return not_a_number<double>();
    result = -kPi / ::tan(kPi * a);
    a = 1 - a;
  }
  for (; a < 10; ++a) result -= 1 / a;
  const double z = 1 / (a * a);
  const double series =
      z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132)))));
  return result + ::log(a) - 0.5 / a - series;
}
template <class T> __device__ inline T digamma(T a) {
  return convert<T>(digamma_double(static_cast<double>(a)));
}

template <class F> __device__ inline F reciprocal_float(F a) { return 1 / a; }
MX_UNARY(reciprocal, reciprocal_float, reciprocal_float)
template <class F> __device__ inline F sigmoid_float(F a) { return 1 / (1 + exp(-a)); }
MX_UNARY(sigmoid, sigmoid_float, sigmoid_float)
template <class F> __device__ inline F softplus_float(F a) {
  return maximum(a, F(0)) + log1p(exp(-absolute(a)));
}
MX_UNARY(softplus, softplus_float, softplus_float)

#undef MX_UNARY
#undef MX_BINARY

}  // namespace mx
