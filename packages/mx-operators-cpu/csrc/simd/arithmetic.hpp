// SPDX-License-Identifier: Apache-2.0
//
// One function per opcode and compute type.  Included by each instruction set's translation unit,
// inside its own namespace.  The meaning of every opcode is mx_core.expression.evaluate's.

template <class T>
constexpr bool kIsFloat = std::is_floating_point_v<T>;

// float -> integer as stores do it: truncated to int32 or int64, then wrapped around; what these do
// not hold, NaN too, is their lowest value.
template <class To, class From>
MX_INLINE To truncated(From x) {
  constexpr bool wide = sizeof(To) == 8 || (sizeof(To) == 4 && To(-1) > To(0));
  using Signed = std::conditional_t<wide, int64_t, int32_t>;
  constexpr From lowest = static_cast<From>(wide ? -9223372036854775808.0 : -2147483648.0);
  return static_cast<To>(static_cast<Signed>(x >= lowest && x < -lowest ? x : lowest));
}

struct Add {
  template <class T> static T apply(T a, T b) { return a + b; }
};
struct Sub {
  template <class T> static T apply(T a, T b) { return a - b; }
};
struct Mul {
  template <class T> static T apply(T a, T b) { return a * b; }
};
struct Div {
  static float apply(float a, float b) { return a / b; }
  static double apply(double a, double b) { return a / b; }
  MX_INLINE static int32_t apply(int32_t a, int32_t b) {  // exact in double, which vectorises
    const double divisor = b == 0 || b == -1 ? 1.0 : b;
    const int32_t quotient = static_cast<int32_t>(static_cast<double>(a) / divisor);
    return b == 0 ? 0 : (b == -1 ? 0 - a : quotient);
  }
  static int64_t apply(int64_t a, int64_t b) { return b == 0 ? 0 : (b == -1 ? 0 - a : a / b); }
};
struct Mod {
  template <class T> static T apply(T a, T b) {
    if constexpr (kIsFloat<T>) {
      if (b == T(0)) return T(0);
      const T r = std::fmod(a, b);
      if (r == T(0)) return std::copysign(T(0), b);
      return (r < T(0)) != (b < T(0)) ? r + b : r;
    } else {
      const T r = a - Div::apply(a, b) * b;
      const T shifted = (r != 0) & ((r ^ b) < 0) ? r + b : r;
      return b == 0 ? 0 : shifted;
    }
  }
};
struct Maximum {  // NaN of either; the first of zeros
  template <class T> static T apply(T a, T b) {
    const T larger = b > a ? b : a;
    return b != b ? b : larger;
  }
};
struct Minimum {
  template <class T> static T apply(T a, T b) {
    const T smaller = b < a ? b : a;
    return b != b ? b : smaller;
  }
};
struct Neg {
  template <class T> static T apply(T x) { return -x; }
};
struct Abs {
  static float apply(float x) { return absolute(x); }
  static double apply(double x) { return double_of(bits_of(x) & 0x7fffffffffffffffu); }
  static int32_t apply(int32_t x) { return x < 0 ? 0 - x : x; }
  static int64_t apply(int64_t x) { return x < 0 ? 0 - x : x; }
};
struct Sign {
  template <class T> static T apply(T x) {
    const T y = static_cast<T>(x > T(0)) - static_cast<T>(x < T(0));
    return x != x ? x : y;
  }
};
struct Square {
  template <class T> static T apply(T x) { return x * x; }
};
struct Relu {
  template <class T> static T apply(T x) { return x <= T(0) ? T(0) : x; }
};
struct Round {  // halves away from zero
  static float apply(float x) { return __builtin_truncf(x + copy_sign(0.49999997f, x)); }
  static double apply(double x) {
    return __builtin_trunc(x + __builtin_copysign(0.49999999999999994, x));
  }
};
struct Rint {
  static float apply(float x) { return __builtin_rintf(x); }
  static double apply(double x) { return __builtin_rint(x); }
};
struct Floor {
  static float apply(float x) { return __builtin_floorf(x); }
  static double apply(double x) { return __builtin_floor(x); }
};
struct Ceil {
  static float apply(float x) { return __builtin_ceilf(x); }
  static double apply(double x) { return __builtin_ceil(x); }
};
struct Trunc {
  static float apply(float x) { return __builtin_truncf(x); }
  static double apply(double x) { return __builtin_trunc(x); }
};
struct Sqrt {
  static float apply(float x) { return __builtin_sqrtf(x); }
  static double apply(double x) { return __builtin_sqrt(x); }
};
struct Rsqrt {
  template <class T> static T apply(T x) { return T(1) / Sqrt::apply(x); }
};
struct Rcbrt {
  template <class T> static T apply(T x) { return T(1) / std::cbrt(x); }
};
struct Reciprocal {
  template <class T> static T apply(T x) { return T(1) / x; }
};
struct Sigmoid {
  static float apply(float x) { return sigmoid32(x); }
  static double apply(double x) { return sigmoid64(x); }
};
struct Softplus {
  static float apply(float x) { return softplus32(x); }
  static double apply(double x) {
    return (x <= 0.0 ? 0.0 : x) + std::log1p(std::exp(-__builtin_fabs(x)));
  }
};
struct Isnan {
  template <class T> static T apply(T x) { return x != x ? T(1) : T(0); }
};
struct Isinf {
  template <class T> static T apply(T x) { return Abs::apply(x) == T(kInf) ? T(1) : T(0); }
};
struct Isfinite {
  template <class T> static T apply(T x) { return Abs::apply(x) < T(kInf) ? T(1) : T(0); }
};
struct Not {
  template <class T> static T apply(T x) { return x == T(0) ? T(1) : T(0); }
};
struct Eq {
  template <class T> static T apply(T a, T b) { return a == b ? T(1) : T(0); }
};
struct Ne {
  template <class T> static T apply(T a, T b) { return a != b ? T(1) : T(0); }
};
struct Lt {
  template <class T> static T apply(T a, T b) { return a < b ? T(1) : T(0); }
};
struct Le {
  template <class T> static T apply(T a, T b) { return a <= b ? T(1) : T(0); }
};
struct Gt {
  template <class T> static T apply(T a, T b) { return a > b ? T(1) : T(0); }
};
struct Ge {
  template <class T> static T apply(T a, T b) { return a >= b ? T(1) : T(0); }
};
struct And {
  template <class T> static T apply(T a, T b) { return (a != T(0)) & (b != T(0)) ? T(1) : T(0); }
};
struct Or {
  template <class T> static T apply(T a, T b) { return (a != T(0)) | (b != T(0)) ? T(1) : T(0); }
};
struct Xor {
  template <class T> static T apply(T a, T b) { return (a != T(0)) != (b != T(0)) ? T(1) : T(0); }
};
struct Where {
  template <class T> static T apply(T c, T a, T b) { return c != T(0) ? a : b; }
};

// A function of the C library for both widths, with a vectorisable float32 version or without.
#define MX_LIBM(Name, function)                                     \
  struct Name {                                                     \
    static float apply(float x) { return std::function(x); }        \
    static double apply(double x) { return std::function(x); }      \
  };
#define MX_OURS(Name, narrow, wide)                                 \
  struct Name {                                                     \
    static float apply(float x) { return narrow(x); }               \
    static double apply(double x) { return wide(x); }               \
  };
#define MX_LIBM_AND_OURS(Name, function, ours)                      \
  struct Name {                                                     \
    static float apply(float x) { return ours(x); }                 \
    static double apply(double x) { return std::function(x); }      \
  };
MX_OURS(Exp, exp32, exp64)
MX_LIBM_AND_OURS(Expm1, expm1, expm1_32)
MX_LIBM_AND_OURS(Log, log, log32)
MX_LIBM_AND_OURS(Log1p, log1p, log1p_32)
MX_LIBM_AND_OURS(Log2, log2, log2_32)
MX_LIBM_AND_OURS(Log10, log10, log10_32)
MX_OURS(Tanh, tanh32, tanh64)
MX_OURS(Erf, erf32, erf64)
MX_LIBM(Sin, sin)
MX_LIBM(Cos, cos)
MX_LIBM(Tan, tan)
MX_LIBM(Cbrt, cbrt)
MX_LIBM(Arcsin, asin)
MX_LIBM(Arccos, acos)
MX_LIBM(Arctan, atan)
MX_LIBM(Sinh, sinh)
MX_LIBM(Cosh, cosh)
MX_LIBM(Arcsinh, asinh)
MX_LIBM(Arccosh, acosh)
MX_LIBM(Arctanh, atanh)
#undef MX_LIBM
#undef MX_LIBM_AND_OURS
#undef MX_OURS

// Faster, where every argument is inside some range.
struct Sin32 {
  static bool inside(float x) { return absolute(x) < kTrigonometricLimit; }
  static float apply(float x) { return sin32(x); }
};
struct Cos32 {
  static bool inside(float x) { return absolute(x) < kTrigonometricLimit; }
  static float apply(float x) { return cos32(x); }
};
struct Tan32 {
  static bool inside(float x) { return absolute(x) < kTrigonometricLimit; }
  static float apply(float x) { return tan32(x); }
};
struct LogNormal32 {
  static bool inside(float x) { return is_normal_positive(x); }
  static float apply(float x) { return log_normal32(x); }
};

struct Gelu {
  static float apply(float x) { return 0.5f * x * (1.0f + erf32(x * 0.70710678f)); }
  static double apply(double x) { return gelu64(x); }
};

// Functions evaluated in double whatever the compute type.
#define MX_RARE(Name, function)                                                             \
  struct Name {                                                                             \
    template <class T> static T apply(T x) { return static_cast<T>(rare::function(x)); }    \
  };
MX_RARE(Erfinv, erfinv)
MX_RARE(Gamma, gamma)
MX_RARE(Gammaln, gammaln)
MX_RARE(Digamma, digamma)
#undef MX_RARE

struct Pow {
  static float apply(float a, float b) { return std::pow(a, b); }
  static double apply(double a, double b) { return std::pow(a, b); }
  // Exact, and wraps as products do. What a negative exponent gives is truncated; that of 0 is the lowest number.
  template <class T>
  static T apply(T base, T exponent) {
    if (exponent < 0) {
      if (base == 0) return truncated<T>(-1e30);
      return base == 1 || base == -1 ? ((exponent & 1) != 0 ? base : T(1)) : T(0);
    }
    using Bits = std::make_unsigned_t<T>;
    Bits result = 1;
    auto factor = static_cast<Bits>(base);
    for (auto left = static_cast<Bits>(exponent); left != 0; left >>= 1) {
      if ((left & 1) != 0) result *= factor;
      factor *= factor;
    }
    return static_cast<T>(result);
  }
};
struct Hypot {
  static float apply(float a, float b) {  // squares of float32 numbers do not overflow in double
    const double x = a, y = b;
    const float r = static_cast<float>(__builtin_sqrt(x * x + y * y));
    return (absolute(a) == kInf) | (absolute(b) == kInf) ? kInf : r;
  }
  static double apply(double a, double b) { return std::hypot(a, b); }
};
struct Arctan2 {
  static float apply(float a, float b) { return std::atan2(a, b); }
  static double apply(double a, double b) { return std::atan2(a, b); }
};

// What has no integer meaning is computed in double and truncated.
template <class F>
struct ThroughDouble {
  template <class T> static T apply(T x) { return truncated<T>(F::apply(static_cast<double>(x))); }
  template <class T> static T apply(T a, T b) {
    return truncated<T>(F::apply(static_cast<double>(a), static_cast<double>(b)));
  }
};
template <class F>
using Itself = F;
struct Same {
  template <class T> static T apply(T x) { return x; }
};
