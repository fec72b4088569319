// SPDX-License-Identifier: Apache-2.0
//
// float32 functions fast enough that memory does not wait for them.  Tables of sixteen entries fit one
// register, so polynomials can be short; four registers go through each operation together, since one
// would wait for its own results.  Included by the translation unit of AVX-512 alone, inside its own
// namespace.  Polynomials: weighted minimax fits made for this file.  Errors are below 3 ulp (see the tests).

// 2^(i/16), what float32 loses of it as a share of it, and 2^(i/16) - 1.
alignas(64) constexpr float kRoots[16] = {
    1.0f, 1.04427373f, 1.09050775f, 1.13878858f, 1.18920708f, 1.24185777f,
    1.29683959f, 1.35425556f, 1.41421354f, 1.47682619f, 1.54221082f, 1.61049032f,
    1.68179286f, 1.75625217f, 1.8340081f, 1.91520655f};
alignas(64) constexpr float kRootsLost[16] = {
    0.0f, 4.62854715e-08f, -1.19921575e-08f, 4.72978243e-08f, 3.19341815e-08f, 3.62105723e-08f,
    -3.09907193e-08f, -7.47521334e-09f, 1.71142709e-08f, -3.04768335e-08f, 5.23333421e-09f, 6.10759177e-09f,
    -1.47196051e-08f, -5.25879518e-09f, -6.12825968e-09f, 5.14060927e-09f};
alignas(64) constexpr float kRootsLessOne[16] = {
    0.0f, 0.0442737825f, 0.0905077308f, 0.13878864f, 0.189207122f, 0.241857812f,
    0.296839565f, 0.354255557f, 0.414213568f, 0.476826131f, 0.542210817f, 0.610490322f,
    0.681792855f, 0.75625217f, 0.834008098f, 0.915206552f};
// Nearly 1/m in the middle of each sixteenth of [1, 1.5) and [0.75, 1), by the upper bits of m, and its
// -log; chosen so that float32 holds this well.
alignas(64) constexpr float kInverses[16] = {
    1.0f, 0.913425744f, 0.86409837f, 0.820661068f, 0.779831946f, 0.743677199f,
    0.711086273f, 0.680412114f, 1.30651367f, 1.25516284f, 1.20658553f, 1.16362619f,
    1.12307632f, 1.0858252f, 1.04952693f, 1.0f};
alignas(64) constexpr float kLogs[16] = {
    0.0f, 0.0905531943f, 0.146068662f, 0.197645083f, 0.248676836f, 0.296148211f,
    0.340961516f, 0.385056615f, -0.267362267f, -0.227265313f, -0.187794492f, -0.151541159f,
    -0.116071634f, -0.0823402554f, -0.0483395196f, 0.0f};
// erf(t) / t about t = i/8, the powers of the distance from there; the last one gives 1 and more.
alignas(64) constexpr float kErf[5][32] = {
    {1.12837923f, 1.12252963f, 1.10530555f, 1.07764506f, 1.04099977f, 0.997185409f, 0.948207498f,
     0.896085799f, 0.842700779f, 0.789678454f, 0.738320112f, 0.689578235f, 0.644070089f, 0.602119207f,
     0.563812375f, 0.529061377f, 0.497661144f, 0.469339281f, 0.44379434f, 0.420722961f, 0.399837226f,
     0.380874157f, 0.363599777f, 0.347809434f, 0.333325982f, 0.319996834f, 0.307690978f, 0.296295762f,
     0.28571406f, 0.275861979f, 0.266666651f, 0.262400001f},
    {0.0f, -0.0931548551f, -0.181165561f, -0.259445876f, -0.324434102f, -0.373897165f, -0.407035083f,
     -0.424389303f, -0.427593231f, -0.419026196f, -0.40143922f, -0.377613485f, -0.350093275f, -0.3210136f,
     -0.292021424f, -0.264275014f, -0.238497123f, -0.215058133f, -0.194067582f, -0.175459579f, -0.159063578f,
     -0.144657627f, -0.132004902f, -0.120876245f, -0.111062236f, -0.102378257f, -0.0946651623f, -0.0877875537f,
     -0.0816310495f, -0.0760992467f, -0.071110867f, 0.0f},
    {-0.37612626f, -0.365645558f, -0.335351139f, -0.288496524f, -0.229913875f, -0.165263727f, -0.100217462f,
     -0.0397286527f, 0.0124857165f, 0.0541937016f, 0.0846301764f, 0.104268149f, 0.114465177f, 0.117074527f,
     0.114094369f, 0.107400835f, 0.0985815749f, 0.0888630077f, 0.0791099444f, 0.0698712468f, 0.061447151f,
     0.0539597943f, 0.0474155098f, 0.0417536832f, 0.0368814915f, 0.0326962844f, 0.0290985536f, 0.0259983763f,
     0.0233177561f, 0.020990679f, 0.0189620163f, 0.0f},
    {0.0f, 0.0552828461f, 0.10454648f, 0.142760739f, 0.166655928f, 0.175119042f, 0.169156983f,
     0.151477456f, 0.125822365f, 0.0962269232f, 0.0663665682f, 0.0391031839f, 0.0162746664f, -0.00129178271f,
     -0.0136049865f, -0.0212529134f, -0.0251360182f, -0.0262420382f, -0.0254876595f, -0.0236300863f, -0.0212367177f,
     -0.0186946448f, -0.016241705f, -0.014004644f, -0.0120351017f, -0.0103387916f, -0.00889665913f, -0.0076787835f,
     -0.00665264158f, -0.00578746619f, -0.00505613908f, 0.0f},
    {0.112706833f, 0.106509611f, 0.0889466032f, 0.0628752112f, 0.0323592387f, 0.00182248594f, -0.0248015765f,
     -0.0447217748f, -0.0566153526f, -0.0606025606f, -0.0579376556f, -0.0505423024f, -0.0405194685f, -0.0297579728f,
     -0.0196876824f, -0.0111930119f, -0.00465334207f, -6.00739222e-05f, 0.0028400505f, 0.00441333838f, 0.00504027307f,
     0.0050550024f, 0.00471836282f, 0.00421471847f, 0.00366236572f, 0.00312928227f, 0.00264886208f, 0.00223294203f,
     0.00188129814f, 0.00158789079f, 0.00134458765f, 0.0f}};

MX_INLINE Wide all(float x) {
  const __m512 v = _mm512_set1_ps(x);
  return {{v, v, v, v}};
}
MX_INLINE Wide operator+(const Wide& a, const Wide& b) { return MX_EACH(_mm512_add_ps, a, b); }
MX_INLINE Wide operator-(const Wide& a, const Wide& b) { return MX_EACH(_mm512_sub_ps, a, b); }
MX_INLINE Wide operator*(const Wide& a, const Wide& b) { return MX_EACH(_mm512_mul_ps, a, b); }
MX_INLINE Wide operator/(const Wide& a, const Wide& b) { return MX_EACH(_mm512_div_ps, a, b); }
// a b + c and c - a b.
MX_INLINE Wide fused(const Wide& a, const Wide& b, const Wide& c) { return MX_EACH(_mm512_fmadd_ps, a, b, c); }
MX_INLINE Wide without(const Wide& a, const Wide& b, const Wide& c) { return MX_EACH(_mm512_fnmadd_ps, a, b, c); }
// b where one of them is NaN.
MX_INLINE Wide smaller(const Wide& a, const Wide& b) { return MX_EACH(_mm512_min_ps, a, b); }
MX_INLINE Wide larger(const Wide& a, const Wide& b) { return MX_EACH(_mm512_max_ps, a, b); }
// The entries that the lowest four bits of `index` say.
MX_INLINE Wide entries(const float (&table)[16], const Wide& index) {
  const __m512 values = _mm512_load_ps(table);
  return each([=](__m512 i) MX_INLINE_LAMBDA { return _mm512_permutexvar_ps(_mm512_castps_si512(i), values); }, index);
}

MX_INLINE Wide entries(const float (&table)[32], const Wide& index) {  // the lowest five
  const float* from = table;
  asm("" : "+r"(from));  // read each time: there are not registers enough for all tables
  const __m512 low = _mm512_load_ps(from), high = _mm512_load_ps(from + 16);
  return each(
      [=](__m512 i) MX_INLINE_LAMBDA { return _mm512_permutex2var_ps(low, _mm512_castps_si512(i), high); }, index);
}
MX_INLINE Wide magnitude(const Wide& x) { return MX_EACH(_mm512_andnot_ps, all(-0.0f), x); }
MX_INLINE Wide with_sign(const Wide& y, const Wide& sign) {
  return MX_EACH(_mm512_or_ps, y, MX_EACH(_mm512_and_ps, sign, all(-0.0f)));
}

// x = n ln2 + r, n a multiple of 1/16, |r| <= ln2 / 32.  The bits of n + kSixteenths are those of 16 (n + 127), below
// others: the lowest four say which sixteenth, the eight before them are the exponent of a power of two.
constexpr float kSixteenths = 786559.0f;  // 1.5 * 2^19 + 127: adding it rounds to a sixteenth
MX_INLINE Wide indexed(const Wide& x) { return fused(x, all(1.44269504f), all(kSixteenths)); }
MX_INLINE Wide remainder(const Wide& x, const Wide& n) {
  return without(n, all(1.42860677e-06f), without(n, all(0.693145752f), x));
}

// For -104 <= x <= 89, which give 0 and infinity.
MX_INLINE Wide exp_within(const Wide& x) {
  const Wide index = indexed(x), n = index - all(kSixteenths), r = remainder(x, n), root = entries(kRoots, index);
  const Wide p = fused(fused(all(0.16667025f), r, all(0.50001623f)), r, all(1.0f));
  return MX_EACH(_mm512_scalef_ps, fused(root, fused(p, r, entries(kRootsLost, index)), root), n);
}
struct WideExp {
  MX_INLINE static Wide apply(const Wide& x) { return exp_within(larger(all(-104.0f), smaller(all(89.0f), x))); }
};

// With e = exp(-|x|): 1 / (1 + e) or e / (1 + e).
struct WideSigmoid {
  MX_INLINE static Wide apply(const Wide& x) {
    const Wide e = exp_within(larger(all(-104.0f), MX_EACH(_mm512_or_ps, x, all(-0.0f))));
    const auto choose = [](__m512 sign, __m512 plus, __m512 minus) MX_INLINE_LAMBDA {
      return _mm512_mask_blend_ps(_mm512_movepi32_mask(_mm512_castps_si512(sign)), plus, minus);
    };
    return each(choose, x, all(1.0f), e) / (e + all(1.0f));
  }
};

// t / (t + 2) with t = expm1(2|x|) = 2^n (2^(i/16) exp(r) - 1) + (2^n - 1): 1 from 10 on.
struct WideTanh {
  MX_INLINE static Wide apply(const Wide& x) {
    const Wide a = smaller(all(10.0f), magnitude(x)), twice = a + a;
    const Wide index = indexed(twice), r = remainder(twice, index - all(kSixteenths));
    const Wide p = fused(fused(fused(all(0.04166766f), r, all(0.16667007f)), r, all(0.5f)), r * r, r);
    const auto power = [](__m512 v) MX_INLINE_LAMBDA {
      const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(v), 19);
      return _mm512_castsi512_ps(_mm512_and_si512(exponent, _mm512_set1_epi32(0x7f800000)));
    };
    const Wide scale = each(power, index);
    const Wide t = fused(scale, fused(p, entries(kRoots, index), entries(kRootsLessOne, index)), scale - all(1.0f));
    return with_sign(t / (t + all(2.0f)), x);
  }
};

// x = m 2^e with m in [0.75, 1.5), m c = 1 + r: near 1, e and log c are zero.
struct WideLog {
  MX_INLINE static Wide apply(const Wide& x) {
    const Wide m = each(
        [](__m512 v) MX_INLINE_LAMBDA { return _mm512_getmant_ps(v, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan); }, x);
    const Wide e = MX_EACH(_mm512_getexp_ps, x) - MX_EACH(_mm512_getexp_ps, m);
    const Wide index = each(
        [](__m512 v) MX_INLINE_LAMBDA { return _mm512_castsi512_ps(_mm512_srli_epi32(_mm512_castps_si512(v), 19)); },
        m);
    const Wide r = fused(m, entries(kInverses, index), all(-1.0f));
    const Wide p = fused(fused(fused(all(0.18862683f), r, all(-0.25007224f)), r, all(0.33334435f)), r, all(-0.5f));
    const Wide low = fused(e, all(1.42860677e-06f), fused(r * r, p, r));
    return fused(e, all(0.693145752f), entries(kLogs, index)) + low;
  }
};

// Of what is not negative; 1 from 3.8 on, where the sums are larger.
MX_INLINE Wide erf_beyond_zero(const Wide& x) {
  const Wide t = smaller(all(3.9f), x), magic = all(1572864.0f);  // 1.5 * 2^20: rounds to an eighth
  const Wide index = t + magic, u = t - (index - magic);
  Wide sum = entries(kErf[4], index);
  for (int k = 3; k >= 0; --k) sum = fused(sum, u, entries(kErf[k], index));
  return smaller(all(1.0f), sum * t);
}
struct WideErf {
  MX_INLINE static Wide apply(const Wide& x) { return with_sign(erf_beyond_zero(magnitude(x)), x); }
};
struct WideGelu {
  MX_INLINE static Wide apply(const Wide& x) {
    const Wide half = x * all(0.5f);
    return with_sign(fused(magnitude(half), erf_beyond_zero(magnitude(half) * all(1.41421356f)), half), x);
  }
};

// A loop of the table; PastCaches as `streamed` has it.
template <class F, bool PastCaches>
void wide(void* out, const void* a, const void*, const void*, size_t n) {
  constexpr size_t kLanes = 16, kBlock = kAbreast * kLanes;
  auto* o = static_cast<float*>(out);
  auto* x = static_cast<const float*>(a);
  size_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    Wide v;
    for (size_t k = 0; k < kAbreast; ++k) {
      if (PastCaches) __builtin_prefetch(x + i + kAhead + k * kLanes);
      v.part[k] = _mm512_loadu_ps(x + i + k * kLanes);
    }
    v = F::apply(v);
    for (size_t k = 0; k < kAbreast; ++k)
      PastCaches ? _mm512_stream_ps(o + i + k * kLanes, v.part[k]) : _mm512_storeu_ps(o + i + k * kLanes, v.part[k]);
  }
  if (i == n) return;
  const uint64_t rest = (uint64_t{1} << (n - i)) - 1;
  Wide v;
  for (size_t k = 0; k < kAbreast; ++k)
    v.part[k] = _mm512_maskz_loadu_ps(static_cast<__mmask16>(rest >> k * kLanes), x + i + k * kLanes);
  v = F::apply(v);
  for (size_t k = 0; k < kAbreast; ++k)
    _mm512_mask_storeu_ps(o + i + k * kLanes, static_cast<__mmask16>(rest >> k * kLanes), v.part[k]);
}

template <class F>
void put_wide(LoopTable& table, int opcode) {
  table.op[F32][opcode][0] = wide<F, false>;
  table.streamed[opcode][0] = wide<F, true>;
}
void put_all_wide(LoopTable& table) {
  put_wide<WideExp>(table, MX_OP_EXP);
  put_wide<WideLog>(table, MX_OP_LOG);
  put_wide<WideTanh>(table, MX_OP_TANH);
  put_wide<WideSigmoid>(table, MX_OP_SIGMOID);
  put_wide<WideErf>(table, MX_OP_ERF);
  put_wide<WideGelu>(table, kGelu);
}
