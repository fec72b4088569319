// SPDX-License-Identifier: Apache-2.0
//
// float64 functions for AVX-512, with tables and polynomials as those of math512.hpp have.  Included after it.
// Polynomials: Chebyshev interpolations made for this file.  Errors are below 2 ulp, of sigmoid below 3, of tanh below 4
// (see the tests).

// 2^(i/16), what float64 loses of it as a share of it, and half of 2^(i/16) - 1.
alignas(64) constexpr double kDoubleRoots[16] = {
    1.0, 1.0442737824274138, 1.0905077326652577, 1.1387886347566916, 1.189207115002721, 1.241857812073484,
    1.2968395546510096, 1.3542555469368927, 1.4142135623730951, 1.4768261459394993, 1.5422108254079407,
    1.6104903319492543, 1.681792830507429, 1.7562521603732995, 1.8340080864093424, 1.9152065613971474};
alignas(64) constexpr double kDoubleRootsLost[16] = {
    0.0, 8.189317638195514e-17, -2.7939114859515733e-17, 7.826573258636075e-17, 3.3484623336251524e-17,
    3.7508542013031266e-17, 1.9572585293112036e-17, 5.68648095791174e-17, -6.835808657661923e-17,
    -2.3591094770850053e-17, 5.1548301170786783e-17, 1.5341410053603723e-17, 4.875160526227061e-17,
    1.685487290628973e-17, 1.790126907604513e-17, -5.5450656186394274e-17};
alignas(64) constexpr double kDoubleRootsLessOneHalved[16] = {
    0.0, 0.02213689121370692, 0.04525386633262883, 0.06939431737834582, 0.09460355750136053, 0.12092890603674203,
    0.14841977732550482, 0.17712777346844635, 0.20710678118654752, 0.23841307296974965, 0.2711054127039704,
    0.30524516597462714, 0.34089641525371456, 0.3781260801866497, 0.4170040432046712, 0.45760328069857364};

MX_INLINE WideDouble all(double x) {
  const __m512d v = _mm512_set1_pd(x);
  return {{v, v, v, v}};
}
MX_INLINE WideDouble operator+(const WideDouble& a, const WideDouble& b) { return MX_EACH(_mm512_add_pd, a, b); }
MX_INLINE WideDouble operator-(const WideDouble& a, const WideDouble& b) { return MX_EACH(_mm512_sub_pd, a, b); }
MX_INLINE WideDouble operator*(const WideDouble& a, const WideDouble& b) { return MX_EACH(_mm512_mul_pd, a, b); }
MX_INLINE WideDouble operator/(const WideDouble& a, const WideDouble& b) { return MX_EACH(_mm512_div_pd, a, b); }
// a b + c and c - a b.
MX_INLINE WideDouble fused(const WideDouble& a, const WideDouble& b, const WideDouble& c) {
  return MX_EACH(_mm512_fmadd_pd, a, b, c);
}
MX_INLINE WideDouble without(const WideDouble& a, const WideDouble& b, const WideDouble& c) {
  return MX_EACH(_mm512_fnmadd_pd, a, b, c);
}
// b where one of them is NaN.
MX_INLINE WideDouble smaller(const WideDouble& a, const WideDouble& b) { return MX_EACH(_mm512_min_pd, a, b); }
MX_INLINE WideDouble larger(const WideDouble& a, const WideDouble& b) { return MX_EACH(_mm512_max_pd, a, b); }
MX_INLINE WideDouble magnitude(const WideDouble& x) { return MX_EACH(_mm512_andnot_pd, all(-0.0), x); }
MX_INLINE WideDouble with_sign(const WideDouble& y, const WideDouble& sign) {
  return MX_EACH(_mm512_or_pd, y, MX_EACH(_mm512_and_pd, sign, all(-0.0)));
}
// The entries that the lowest four bits of `index` say.
MX_INLINE WideDouble entries(const double (&table)[16], const WideDouble& index) {
  const double* from = table;
  asm("" : "+r"(from));  // read each time: there are not registers enough for all tables
  const __m512d low = _mm512_load_pd(from), high = _mm512_load_pd(from + 8);
  return each(
      [=](__m512d i) MX_INLINE_LAMBDA { return _mm512_permutex2var_pd(low, _mm512_castpd_si512(i), high); }, index);
}

// x = n ln2 + r, n a multiple of 1/16, |r| <= ln2 / 32.  The bits of n + kDoubleSixteenths are those of
// 16 (n + 1023), below others, as in float32.
constexpr double kDoubleSixteenths = 422212465067007.0;  // 1.5 * 2^48 + 1023: adding it rounds to a sixteenth

// For -746 <= x <= 710, which give 0 and infinity.
MX_INLINE WideDouble exp_within(const WideDouble& x) {
  const WideDouble index = fused(x, all(Ln2<double>::inverse), all(kDoubleSixteenths));
  const WideDouble n = index - all(kDoubleSixteenths);
  const WideDouble r = without(n, all(Ln2<double>::low), without(n, all(Ln2<double>::high), x));
  WideDouble q = fused(all(0.0013889034348876907), r, all(0.008333449701475412));
  q = fused(fused(fused(q, r, all(0.041666666664960446)), r, all(0.16666666665301685)), r, all(0.5));
  const WideDouble p = fused(q, r * r, r), root = entries(kDoubleRoots, index);
  return MX_EACH(_mm512_scalef_pd, fused(root, p + entries(kDoubleRootsLost, index), root), n);
}
struct WideDoubleExp {
  MX_INLINE static WideDouble apply(const WideDouble& x) {
    return exp_within(larger(all(-746.0), smaller(all(710.0), x)));
  }
};

// With e = exp(-|x|): 1 / (1 + e) or e / (1 + e).
struct WideDoubleSigmoid {
  MX_INLINE static WideDouble apply(const WideDouble& x) {
    const WideDouble e = exp_within(larger(all(-746.0), MX_EACH(_mm512_or_pd, x, all(-0.0))));
    const auto choose = [](__m512d sign, __m512d plus, __m512d minus) MX_INLINE_LAMBDA {
      return _mm512_mask_blend_pd(_mm512_movepi64_mask(_mm512_castpd_si512(sign)), plus, minus);
    };
    return each(choose, x, all(1.0), e) / (e + all(1.0));
  }
};

// t / (t + 1) with t = expm1(2|x|) / 2 and 2|x| = n ln2 + 2r: 1 from 20 on.
struct WideDoubleTanh {
  MX_INLINE static WideDouble apply(const WideDouble& x) {
    const WideDouble a = smaller(all(20.0), magnitude(x));
    const WideDouble index = fused(a, all(2 * Ln2<double>::inverse), all(kDoubleSixteenths));
    const WideDouble n = index - all(kDoubleSixteenths);
    const WideDouble r = without(n, all(Ln2<double>::low / 2), without(n, all(Ln2<double>::high / 2), a));
    WideDouble q = fused(all(0.012698536824217666), r, all(0.04444500301116243));
    q = fused(fused(q, r, all(0.13333333332787342)), r, all(0.3333333333087637));
    q = fused(fused(q, r, all(0.6666666666666667)), r, all(1.0));
    const auto power = [](__m512d v) MX_INLINE_LAMBDA {
      const __m512i exponent = _mm512_slli_epi64(_mm512_castpd_si512(v), 48);
      return _mm512_castsi512_pd(_mm512_and_si512(exponent, _mm512_set1_epi64(0x7ff0000000000000)));
    };
    const WideDouble scale = each(power, index), p = fused(q, r * r, r);
    const WideDouble grown = fused(p, entries(kDoubleRoots, index), entries(kDoubleRootsLessOneHalved, index));
    const WideDouble t = fused(scale, grown, fused(scale, all(0.5), all(-0.5)));
    return with_sign(t / (t + all(1.0)), x);
  }
};

// The points of a table whose places the lowest bits are.  Eight loads of pairs are faster than two gathers.
MX_INLINE void points_at(const ErfPoint* table, __m512i places, __m512d& value, __m512d& slope) {
  static_assert(sizeof(ErfPoint) == 16 && sizeof(kErfPoints) < 1 << 16);
  const __m128i packed = _mm512_cvtepi64_epi16(_mm512_slli_epi64(places, 4));  // bytes
  const auto low = static_cast<uint64_t>(_mm_cvtsi128_si64(packed));
  const auto high = static_cast<uint64_t>(_mm_extract_epi64(packed, 1));
  const auto point = [=](uint64_t four, int i) MX_INLINE_LAMBDA {
    const auto bytes = static_cast<uint16_t>(four >> (16 * i));
    return _mm_load_pd(reinterpret_cast<const double*>(reinterpret_cast<const char*>(table) + bytes));
  };
  const auto two = [=](uint64_t four, int i) MX_INLINE_LAMBDA {  // every other one
    return _mm256_insertf128_pd(_mm256_castpd128_pd256(point(four, i)), point(four, i + 2), 1);
  };
  const __m512d even = _mm512_insertf64x4(_mm512_castpd256_pd512(two(low, 0)), two(high, 0), 1);
  const __m512d odd = _mm512_insertf64x4(_mm512_castpd256_pd512(two(low, 1)), two(high, 1), 1);
  value = _mm512_unpacklo_pd(even, odd), slope = _mm512_unpackhi_pd(even, odd);
}

MX_INLINE __m512d whole(double x) { return _mm512_set1_pd(x); }
// As erf_by_points of math64.hpp: a vector at a time, there are not registers enough for all.
MX_INLINE __m512d vector_erf_by_points(__m512d t) {
  const auto plus = [](__m512d a, __m512d b, __m512d c) MX_INLINE_LAMBDA { return _mm512_fmadd_pd(a, b, c); };
  const __m512d magic = whole(kErfMagic), end = whole(kErfEnd);
  const __m512d shifted = _mm512_min_pd(t, end) + magic, r = shifted - magic, d = _mm512_min_pd(end, t) - r;
  __m512d value, slope;
  points_at(kErfPoints.at, _mm512_castpd_si512(shifted), value, slope);
  const __m512d twice = d + d, w = twice * r, z = twice * d;
  __m512d first = plus(plus(whole(1.0 / 120), w, whole(-1.0 / 24)), w, whole(1.0 / 6));
  first = plus(plus(first, w, whole(-0.5)), w, whole(1.0));
  __m512d second = plus(whole(1.0 / 40), z, whole(-1.0 / 6));
  second = plus(plus(whole(-1.0 / 20), w, whole(1.0 / 8)), w, second);
  return plus(slope * d, plus(second, z, first), value);
}
MX_INLINE WideDouble wide_erf_by_points(const WideDouble& t) { return MX_EACH(vector_erf_by_points, t); }
struct WideDoubleErf {
  MX_INLINE static WideDouble apply(const WideDouble& x) {
    const WideDouble t = magnitude(x), z = x * x;
    const WideDouble p = fused(fused(all(kErfSlope / 216), z, all(-kErfSlope / 42)), z, all(kErfSlope / 10));
    const WideDouble small = fused(fused(fused(p, z, all(-kErfSlope / 3)), z, all(kErfSlope - 1.0)), x, x);
    const auto choose = [](__m512d of, __m512d below, __m512d above) MX_INLINE_LAMBDA {
      return _mm512_mask_blend_pd(_mm512_cmp_pd_mask(of, _mm512_set1_pd(kErfSmall), _CMP_LT_OQ), above, below);
    };
    return each(choose, t, small, with_sign(wide_erf_by_points(t), x));
  }
};
struct WideDoubleGelu {
  MX_INLINE static WideDouble apply(const WideDouble& x) {
    const WideDouble half = x * all(0.5);
    const WideDouble erf = wide_erf_by_points(magnitude(x) * all(0.7071067811865476));
    return with_sign(fused(magnitude(half), erf, half), x);
  }
};

// A loop of the table.
template <class F>
void wide_double(void* out, const void* a, const void*, const void*, size_t n) {
  constexpr size_t kLanes = 8, kBlock = kAbreast * kLanes;
  auto* o = static_cast<double*>(out);
  auto* x = static_cast<const double*>(a);
  WideDouble v;
  size_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    for (size_t k = 0; k < kAbreast; ++k) v.part[k] = _mm512_loadu_pd(x + i + k * kLanes);
    v = F::apply(v);
    for (size_t k = 0; k < kAbreast; ++k) _mm512_storeu_pd(o + i + k * kLanes, v.part[k]);
  }
  if (i == n) return;
  const uint32_t rest = (uint32_t{1} << (n - i)) - 1;
  for (size_t k = 0; k < kAbreast; ++k)
    v.part[k] = _mm512_maskz_loadu_pd(static_cast<__mmask8>(rest >> k * kLanes), x + i + k * kLanes);
  v = F::apply(v);
  for (size_t k = 0; k < kAbreast; ++k)
    _mm512_mask_storeu_pd(o + i + k * kLanes, static_cast<__mmask8>(rest >> k * kLanes), v.part[k]);
}

void put_all_wide_double(LoopTable& table) {
  table.op[F64][MX_OP_EXP][0] = wide_double<WideDoubleExp>;
  table.op[F64][MX_OP_TANH][0] = wide_double<WideDoubleTanh>;
  table.op[F64][MX_OP_SIGMOID][0] = wide_double<WideDoubleSigmoid>;
  table.op[F64][MX_OP_ERF][0] = wide_double<WideDoubleErf>;
  table.op[F64][kGelu][0] = wide_double<WideDoubleGelu>;
}
