// SPDX-License-Identifier: Apache-2.0
//
// Between storage types and compute types.  Included by each instruction set's translation unit,
// inside its own namespace.

template <int Code> struct StorageType;
template <> struct StorageType<MX_FLOAT32> { using type = float; };
template <> struct StorageType<MX_FLOAT64> { using type = double; };
template <> struct StorageType<MX_FLOAT16> { using type = Float16; };
template <> struct StorageType<MX_UINT8> { using type = uint8_t; };
template <> struct StorageType<MX_INT32> { using type = int32_t; };
template <> struct StorageType<MX_INT8> { using type = int8_t; };
template <> struct StorageType<MX_INT64> { using type = int64_t; };
template <> struct StorageType<MX_BOOL> { using type = Bool; };
template <> struct StorageType<MX_INT16> { using type = int16_t; };
template <> struct StorageType<MX_UINT16> { using type = uint16_t; };
template <> struct StorageType<MX_UINT32> { using type = uint32_t; };
template <> struct StorageType<MX_UINT64> { using type = uint64_t; };
template <> struct StorageType<MX_BFLOAT16> { using type = BFloat16; };
template <int Code> using Storage = typename StorageType<Code>::type;

// ---- one element ----

inline float widen(BFloat16 x) { return float(x); }
inline float widen(Float16 x) { return float(x); }
inline float widen(Bool x) { return x.byte != 0 ? 1.0f : 0.0f; }
template <class T> inline T widen(T x) { return x; }

// float32 that rounds on to 16 bits as if the double had been rounded once: round to odd.
inline float narrowed(float x) { return x; }
inline float narrowed(double x) {
  const float y = static_cast<float>(x);
  const double back = y;
  const uint32_t bits = bits_of(y);
  const bool exact = back == x || x != x || (bits & 0x7fffffffu) == 0;
  const bool outward = Abs::apply(back) > Abs::apply(x);
  return float_of(exact ? bits : (bits - (outward ? 1u : 0u)) | 1u);
}
inline float narrowed(int32_t x) { return static_cast<float>(x); }
inline float narrowed(int64_t x) { return static_cast<float>(x); }

template <class To, class From>
inline To narrow(From x) {
  if constexpr (std::is_same_v<To, Bool>) {
    return Bool{static_cast<uint8_t>(x != From(0))};
  } else if constexpr (std::is_same_v<To, Float16> || std::is_same_v<To, BFloat16>) {
    return To(narrowed(x));
  } else if constexpr (kIsFloat<From> && !kIsFloat<To>) {
    return truncated<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

// ---- arrays ----

template <int Code, class T>
void load(void* out, const void* in, size_t n) {
  auto* o = static_cast<T*>(out);
  auto* x = static_cast<const Storage<Code>*>(in);
  size_t i = 0;
  if constexpr (Code == MX_FLOAT16 && std::is_same_v<T, float>) i = load_half_vectors(o, x, n);
  // Reloads of what `load` of a float type into an integer one would need are never asked for:
  // the compute type is the widest, floating point first.
  MX_INDEPENDENT
  for (; i < n; ++i) o[i] = narrow<T>(widen(x[i]));
}

template <class T, int Code>
void store(void* out, const void* in, size_t n) {
  auto* o = static_cast<Storage<Code>*>(out);
  auto* x = static_cast<const T*>(in);
  size_t i = 0;
  if constexpr (Code == MX_FLOAT16 && std::is_same_v<T, float>) i = store_half_vectors(o, x, n);
  MX_INDEPENDENT
  for (; i < n; ++i) o[i] = narrow<Storage<Code>>(x[i]);
}
