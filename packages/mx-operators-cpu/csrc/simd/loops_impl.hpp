// SPDX-License-Identifier: Apache-2.0
//
// The body of a loop table.  Each instruction set's translation unit includes this once, after
// selecting its target, with MX_ISA naming its namespace; everything has internal linkage, so that
// the linker cannot merge code of different instruction sets.

#define MX_INDEPENDENT _Pragma("GCC ivdep")
// GCC 12 takes the undefined upper halves in its own intrinsics for an oversight of ours.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are never passed: every helper is inlined

namespace mx::cpu {
namespace MX_ISA {
namespace {

// Elements: how far ahead of what is read the rest is asked for.  Pages end before the processor has recognised a stream.
constexpr size_t kAhead = 1024;

#include "simd/arithmetic.hpp"
#include "simd/intrinsics.hpp"
#include "simd/convert.hpp"
#include "simd/fold.hpp"
#include "simd/gemm_tile.hpp"
#include "simd/philox_words.hpp"
#include "simd/pixel_loops.hpp"
#include "simd/transpose.hpp"

#if MX_VECTOR == 512
#include "simd/abreast512.hpp"
#include "simd/math512.hpp"
#include "simd/math512_double.hpp"
#endif

template <class T, class F>
void unary(void* out, const void* a, const void*, const void*, size_t n) {
  auto* o = static_cast<T*>(out);
  auto* x = static_cast<const T*>(a);
  MX_INDEPENDENT
  for (size_t i = 0; i < n; ++i) o[i] = F::apply(x[i]);
}

template <class T, class F, int Form>
void binary(void* out, const void* a, const void* b, const void*, size_t n) {
  auto* o = static_cast<T*>(out);
  auto* x = static_cast<const T*>(a);
  auto* y = static_cast<const T*>(b);
  const T x0 = (Form & 1) != 0 ? *x : T(0), y0 = (Form & 2) != 0 ? *y : T(0);
  MX_INDEPENDENT
  for (size_t i = 0; i < n; ++i)
    o[i] = F::apply((Form & 1) != 0 ? x0 : x[i], (Form & 2) != 0 ? y0 : y[i]);
}

// element(i), computed a few lines at a time, goes past the caches.  What it reads is asked for ahead of
// time: pages end before the processor has recognised the stream.
template <class Element, class... Inputs>
MX_INLINE void streamed(void* out, size_t n, Element element, Inputs... inputs) {
  constexpr size_t kLine = 64 / sizeof(float), kBlock = 4 * kLine;
  auto* o = static_cast<float*>(out);
  size_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    for (size_t k = 0; k < kBlock; k += kLine) (__builtin_prefetch(inputs + i + kAhead + k), ...);
    alignas(64) float block[kBlock];
    MX_INDEPENDENT
    for (size_t k = 0; k < kBlock; ++k) block[k] = element(i + k);
    for (size_t k = 0; k < kBlock; k += kLine) stream_line(o + i + k, block + k);
  }
  for (; i < n; ++i) o[i] = element(i);
}

template <class F>
void unary_streamed(void* out, const void* a, const void*, const void*, size_t n) {
  auto* x = static_cast<const float*>(a);
  streamed(out, n, [=](size_t i) MX_INLINE_LAMBDA { return F::apply(x[i]); }, x);
}

template <class F, int Form>
void binary_streamed(void* out, const void* a, const void* b, const void*, size_t n) {
  auto* x = static_cast<const float*>(a);
  auto* y = static_cast<const float*>(b);
  const float x0 = (Form & 1) != 0 ? *x : 0.0f, y0 = (Form & 2) != 0 ? *y : 0.0f;
  const auto element = [=](size_t i) MX_INLINE_LAMBDA {
    return F::apply((Form & 1) != 0 ? x0 : x[i], (Form & 2) != 0 ? y0 : y[i]);
  };
  Form == 1 ? streamed(out, n, element, y) : Form == 2 ? streamed(out, n, element, x) : streamed(out, n, element, x, y);
}

template <class T, int Form>
void ternary(void* out, const void* c, const void* a, const void* b, size_t n) {
  auto* o = static_cast<T*>(out);
  auto* z = static_cast<const T*>(c);
  auto* x = static_cast<const T*>(a);
  auto* y = static_cast<const T*>(b);
  const T z0 = (Form & 1) != 0 ? *z : T(0), x0 = (Form & 2) != 0 ? *x : T(0),
          y0 = (Form & 4) != 0 ? *y : T(0);
  MX_INDEPENDENT
  for (size_t i = 0; i < n; ++i)
    o[i] = Where::apply((Form & 1) != 0 ? z0 : z[i], (Form & 2) != 0 ? x0 : x[i],
                        (Form & 4) != 0 ? y0 : y[i]);
}

void where_streamed(void* out, const void* c, const void* a, const void* b, size_t n) {
  auto* z = static_cast<const float*>(c);
  auto* x = static_cast<const float*>(a);
  auto* y = static_cast<const float*>(b);
  streamed(out, n, [=](size_t i) MX_INLINE_LAMBDA { return Where::apply(z[i], x[i], y[i]); }, x, y, z);
}

constexpr size_t kChecked = 256;  // arguments looked at together

// `Inside` where all of some arguments are within its range, else `Any`.
template <class Inside, class Any, bool PastCaches = false>
void checked(void* out, const void* a, const void*, const void*, size_t n) {
  auto* o = static_cast<float*>(out);
  auto* x = static_cast<const float*>(a);
  constexpr Loop inside = PastCaches ? unary_streamed<Inside> : unary<float, Inside>;
  constexpr Loop any = PastCaches ? unary_streamed<Any> : unary<float, Any>;
  for (size_t start = 0; start < n; start += kChecked) {
    const size_t some = start + kChecked < n ? kChecked : n - start;
    int32_t outside = 0;
    for (size_t i = 0; i < some; ++i) outside |= Inside::inside(x[start + i]) ? 0 : 1;
    (outside == 0 ? inside : any)(o + start, x + start, nullptr, nullptr, some);
  }
}

// Exponents that are one number are mostly small and exact.
template <class T>
void power_by_scalar(void* out, const void* a, const void* b, const void* c, size_t n) {
  const T exponent = *static_cast<const T*>(b);
  if (exponent == T(2)) return unary<T, Square>(out, a, nullptr, nullptr, n);
  if (exponent == T(1)) return unary<T, Same>(out, a, nullptr, nullptr, n);
  if (exponent == T(-1)) return unary<T, Reciprocal>(out, a, nullptr, nullptr, n);
  binary<T, Pow, 2>(out, a, b, c, n);
}

template <class T>
void reverse(void* to, const void* from, size_t n) {
  auto* o = static_cast<T*>(to);
  auto* x = static_cast<const T*>(from) - (n - 1);
  MX_INDEPENDENT
  for (size_t i = 0; i < n; ++i) o[n - 1 - i] = x[i];
}

template <class T>
void add_scaled(void* y, const void* x, double a, size_t n) {
  auto* to = static_cast<T*>(y);
  auto* from = static_cast<const T*>(x);
  const T factor = static_cast<T>(a);
  MX_INDEPENDENT
  for (size_t i = 0; i < n; ++i) to[i] += factor * from[i];
}

template <class T, class F>
void put_unary(Loop (&table)[kOpcodes][kForms], int opcode) {
  table[opcode][0] = unary<T, F>;
}
template <class T, class F>
void put_binary(Loop (&table)[kOpcodes][kForms], int opcode) {
  table[opcode][0] = binary<T, F, 0>;
  table[opcode][1] = binary<T, F, 1>;
  table[opcode][2] = binary<T, F, 2>;
}

template <class F>
void put_unary_streamed(Loop (&table)[kOpcodes][kForms], int opcode) {
  table[opcode][0] = unary_streamed<F>;
}
template <class F>
void put_binary_streamed(Loop (&table)[kOpcodes][kForms], int opcode) {
  table[opcode][0] = binary_streamed<F, 0>;
  table[opcode][1] = binary_streamed<F, 1>;
  table[opcode][2] = binary_streamed<F, 2>;
}

template <class T>
void put_common(Loop (&t)[kOpcodes][kForms]) {
  put_binary<T, Add>(t, MX_OP_ADD);
  put_binary<T, Sub>(t, MX_OP_SUB);
  put_binary<T, Mul>(t, MX_OP_MUL);
  put_binary<T, Div>(t, MX_OP_DIV);
  put_binary<T, Mod>(t, MX_OP_MOD);
  put_binary<T, Pow>(t, MX_OP_POW);
  put_binary<T, Maximum>(t, MX_OP_MAXIMUM);
  put_binary<T, Minimum>(t, MX_OP_MINIMUM);
  put_binary<T, Eq>(t, MX_OP_EQ);
  put_binary<T, Ne>(t, MX_OP_NE);
  put_binary<T, Lt>(t, MX_OP_LT);
  put_binary<T, Le>(t, MX_OP_LE);
  put_binary<T, Gt>(t, MX_OP_GT);
  put_binary<T, Ge>(t, MX_OP_GE);
  put_binary<T, And>(t, MX_OP_AND);
  put_binary<T, Or>(t, MX_OP_OR);
  put_binary<T, Xor>(t, MX_OP_XOR);
  put_unary<T, Neg>(t, MX_OP_NEG);
  put_unary<T, Abs>(t, MX_OP_ABS);
  put_unary<T, Sign>(t, MX_OP_SIGN);
  put_unary<T, Square>(t, MX_OP_SQUARE);
  put_unary<T, Relu>(t, MX_OP_RELU);
  put_unary<T, Not>(t, MX_OP_NOT);
  t[MX_OP_WHERE][0] = ternary<T, 0>;
  t[MX_OP_WHERE][1] = ternary<T, 1>;
  t[MX_OP_WHERE][2] = ternary<T, 2>;
  t[MX_OP_WHERE][3] = ternary<T, 3>;
  t[MX_OP_WHERE][4] = ternary<T, 4>;
  t[MX_OP_WHERE][5] = ternary<T, 5>;
  t[MX_OP_WHERE][6] = ternary<T, 6>;
}

// What is computed as fast as memory takes it.
void put_streamed(Loop (&t)[kOpcodes][kForms]) {
  put_binary_streamed<Add>(t, MX_OP_ADD);
  put_binary_streamed<Sub>(t, MX_OP_SUB);
  put_binary_streamed<Mul>(t, MX_OP_MUL);
  put_binary_streamed<Div>(t, MX_OP_DIV);
  put_binary_streamed<Maximum>(t, MX_OP_MAXIMUM);
  put_binary_streamed<Minimum>(t, MX_OP_MINIMUM);
  put_binary_streamed<Eq>(t, MX_OP_EQ);
  put_binary_streamed<Ne>(t, MX_OP_NE);
  put_binary_streamed<Lt>(t, MX_OP_LT);
  put_binary_streamed<Le>(t, MX_OP_LE);
  put_binary_streamed<Gt>(t, MX_OP_GT);
  put_binary_streamed<Ge>(t, MX_OP_GE);
  put_unary_streamed<Neg>(t, MX_OP_NEG);
  put_unary_streamed<Abs>(t, MX_OP_ABS);
  put_unary_streamed<Square>(t, MX_OP_SQUARE);
  put_unary_streamed<Sqrt>(t, MX_OP_SQRT);
  put_unary_streamed<Relu>(t, MX_OP_RELU);
  put_unary_streamed<Exp>(t, MX_OP_EXP);
  put_unary_streamed<Gelu>(t, kGelu);
  t[MX_OP_LOG][0] = checked<LogNormal32, Log, true>;
  put_unary_streamed<Tanh>(t, MX_OP_TANH);
  put_unary_streamed<Sigmoid>(t, MX_OP_SIGMOID);
  t[MX_OP_WHERE][0] = where_streamed;
}

// As: the function itself for floating point, ThroughDouble<function> for integers.
template <class T, template <class> class As>
void put_real(Loop (&t)[kOpcodes][kForms]) {
  put_binary<T, As<Hypot>>(t, MX_OP_HYPOT);
  put_binary<T, As<Arctan2>>(t, MX_OP_ARCTAN2);
  put_unary<T, As<Sqrt>>(t, MX_OP_SQRT);
  put_unary<T, As<Rsqrt>>(t, MX_OP_RSQRT);
  put_unary<T, As<Cbrt>>(t, MX_OP_CBRT);
  put_unary<T, As<Rcbrt>>(t, MX_OP_RCBRT);
  put_unary<T, As<Reciprocal>>(t, MX_OP_RECIPROCAL);
  put_unary<T, As<Exp>>(t, MX_OP_EXP);
  put_unary<T, As<Expm1>>(t, MX_OP_EXPM1);
  put_unary<T, As<Log>>(t, MX_OP_LOG);
  put_unary<T, As<Log1p>>(t, MX_OP_LOG1P);
  put_unary<T, As<Log2>>(t, MX_OP_LOG2);
  put_unary<T, As<Log10>>(t, MX_OP_LOG10);
  put_unary<T, As<Sin>>(t, MX_OP_SIN);
  put_unary<T, As<Cos>>(t, MX_OP_COS);
  put_unary<T, As<Tan>>(t, MX_OP_TAN);
  put_unary<T, As<Arcsin>>(t, MX_OP_ARCSIN);
  put_unary<T, As<Arccos>>(t, MX_OP_ARCCOS);
  put_unary<T, As<Arctan>>(t, MX_OP_ARCTAN);
  put_unary<T, As<Sinh>>(t, MX_OP_SINH);
  put_unary<T, As<Cosh>>(t, MX_OP_COSH);
  put_unary<T, As<Tanh>>(t, MX_OP_TANH);
  put_unary<T, As<Arcsinh>>(t, MX_OP_ARCSINH);
  put_unary<T, As<Arccosh>>(t, MX_OP_ARCCOSH);
  put_unary<T, As<Arctanh>>(t, MX_OP_ARCTANH);
  put_unary<T, As<Erf>>(t, MX_OP_ERF);
  put_unary<T, As<Erfinv>>(t, MX_OP_ERFINV);
  put_unary<T, As<Gamma>>(t, MX_OP_GAMMA);
  put_unary<T, As<Gammaln>>(t, MX_OP_GAMMALN);
  put_unary<T, As<Digamma>>(t, MX_OP_DIGAMMA);
  put_unary<T, As<Sigmoid>>(t, MX_OP_SIGMOID);
  put_unary<T, As<Softplus>>(t, MX_OP_SOFTPLUS);
  put_unary<T, As<Isnan>>(t, MX_OP_ISNAN);
  put_unary<T, As<Isinf>>(t, MX_OP_ISINF);
  put_unary<T, As<Isfinite>>(t, MX_OP_ISFINITE);
}

template <class T>
void put_float(Loop (&t)[kOpcodes][kForms]) {
  put_common<T>(t);
  put_real<T, Itself>(t);
  t[MX_OP_POW][2] = power_by_scalar<T>;
  put_unary<T, Gelu>(t, kGelu);
  put_unary<T, Round>(t, MX_OP_ROUND);
  put_unary<T, Rint>(t, MX_OP_RINT);
  put_unary<T, Floor>(t, MX_OP_FLOOR);
  put_unary<T, Ceil>(t, MX_OP_CEIL);
  put_unary<T, Trunc>(t, MX_OP_TRUNC);
}

template <class T>
void put_integer(Loop (&t)[kOpcodes][kForms]) {
  put_common<T>(t);
  put_real<T, ThroughDouble>(t);
  for (int opcode : {MX_OP_ROUND, MX_OP_RINT, MX_OP_FLOOR, MX_OP_CEIL, MX_OP_TRUNC})
    put_unary<T, Same>(t, opcode);
}

template <int Code>
void put_conversions(LoopTable& table) {
  table.load[Code][F32] = load<Code, float>;
  table.load[Code][F64] = load<Code, double>;
  table.load[Code][I32] = load<Code, int32_t>;
  table.load[Code][I64] = load<Code, int64_t>;
  table.store[F32][Code] = store<float, Code>;
  table.store[F64][Code] = store<double, Code>;
  table.store[I32][Code] = store<int32_t, Code>;
  table.store[I64][Code] = store<int64_t, Code>;
}
template <int... Codes>
void put_all_conversions(LoopTable& table, std::integer_sequence<int, Codes...>) {
  (put_conversions<Codes>(table), ...);
}

void fill_table(LoopTable& table, const char* name) {
  table.name = name;
  put_float<float>(table.op[F32]);
  put_float<double>(table.op[F64]);
  put_integer<int32_t>(table.op[I32]);
  put_integer<int64_t>(table.op[I64]);
  table.op[F32][MX_OP_SIN][0] = checked<Sin32, Sin>;
  table.op[F32][MX_OP_COS][0] = checked<Cos32, Cos>;
  table.op[F32][MX_OP_TAN][0] = checked<Tan32, Tan>;
  put_streamed(table.streamed);
  table.op[F32][MX_OP_LOG][0] = checked<LogNormal32, Log>;
#if MX_VECTOR == 512
  put_all_wide(table);
  put_all_wide_double(table);
#endif
  put_all_conversions(table, std::make_integer_sequence<int, kDtypes>());
  put_folds(table);
  table.add_scaled[0] = add_scaled<float>;
  table.add_scaled[1] = add_scaled<double>;
  put_gemm_tile(table.gemm32);
  put_gemm_tile(table.gemm64);
  put_line_tiles(table);
  table.reverse[0] = reverse<uint8_t>;
  table.reverse[1] = reverse<uint16_t>;
  table.reverse[2] = reverse<uint32_t>;
  table.reverse[3] = reverse<uint64_t>;
  table.reverse_triples = reverse_triples;
  table.stream = stream;
  table.philox = philox_words;
  table.uniform = uniform_numbers;
  table.keep = keep_numbers;
  table.normal = normal_numbers;
  table.transpose16 = transpose<uint16_t>;
  table.transpose32 = transpose<uint32_t>;
  table.transpose64 = transpose64;
  table.mix_pixels = mix_pixels;
  table.mix_rows = mix_rows;
}

}  // namespace
}  // namespace MX_ISA
}  // namespace mx::cpu
