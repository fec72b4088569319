// SPDX-License-Identifier: Apache-2.0
#include "convolution/winograd/transforms.hpp"

namespace mx::cpu {
namespace {

// The one-dimensional transforms; `stride` is between the values that they read.
template <class T>
struct Transforms {
  using Vector = typename LanesOf<T>::Vector;

  // The points' absolute values and their squares; kA * kB = 1.
  static constexpr T kA = static_cast<T>(0.70710678118654752440), kB = static_cast<T>(1.41421356237309504880);
  static constexpr T kA2 = static_cast<T>(0.5), kB2 = 2, kSum = kA2 + kB2;
  // 1 / prod(p - q) over the other finite points q, for p = 0 (which is 1), +-kA and +-kB.
  static constexpr T kScaleA = 1 / (2 * kA2 * (kA2 - kB2)), kScaleB = 1 / (2 * kB2 * (kB2 - kA2));

  // The values at 0, +-kA, +-kB and infinity, from their even and odd parts.
  MX_AVX512_INLINE static void set_points(Vector* y, Vector zero, Vector even_a, Vector odd_a, Vector even_b,
                                          Vector odd_b, Vector infinity) {
    y[0] = zero;
    y[1] = even_a + odd_a;
    y[2] = even_a - odd_a;
    y[3] = even_b + odd_b;
    y[4] = even_b - odd_b;
    y[5] = infinity;
  }

  // B': six values -> six points
  MX_AVX512_INLINE static void data_points(const Vector* x, int64_t stride, Vector* y) {
    const Vector x0 = x[0], x1 = x[stride], x2 = x[2 * stride], x3 = x[3 * stride], x4 = x[4 * stride];
    const Vector x5 = x[5 * stride];
    const Vector even_a = x4 - kB2 * x2, odd_a = kA * (x3 - kB2 * x1);
    const Vector even_b = x4 - kA2 * x2, odd_b = kB * (x3 - kA2 * x1);
    set_points(y, x0 - kSum * x2 + x4, even_a, odd_a, even_b, odd_b, x1 - kSum * x3 + x5);
  }

  // A': six points -> four results
  MX_AVX512_INLINE static void results(const Vector* x, int64_t stride, Vector* y) {
    const Vector even_a = x[stride] + x[2 * stride], odd_a = x[stride] - x[2 * stride];
    const Vector even_b = x[3 * stride] + x[4 * stride], odd_b = x[3 * stride] - x[4 * stride];
    y[0] = x[0] + even_a + even_b;
    y[1] = kA * odd_a + kB * odd_b;
    y[2] = kA2 * even_a + kB2 * even_b;
    y[3] = kA * kA2 * odd_a + kB * kB2 * odd_b + x[5 * stride];
  }

  // A: four gradients of results -> six points
  MX_AVX512_INLINE static void gradient_points(const Vector* x, int64_t stride, Vector* y) {
    const Vector x0 = x[0], x1 = x[stride], x2 = x[2 * stride], x3 = x[3 * stride];
    const Vector even_a = x0 + kA2 * x2, odd_a = kA * (x1 + kA2 * x3);
    const Vector even_b = x0 + kB2 * x2, odd_b = kB * (x1 + kB2 * x3);
    set_points(y, x0, even_a, odd_a, even_b, odd_b, x3);
  }

  // G: three taps -> six points
  MX_AVX512_INLINE static void filter_points(const Vector* x, int64_t stride, Vector* y) {
    const Vector x0 = x[0], x1 = x[stride], x2 = x[2 * stride];
    const Vector even_a = kScaleA * (x0 + kA2 * x2), odd_a = kScaleA * kA * x1;
    const Vector even_b = kScaleB * (x0 + kB2 * x2), odd_b = kScaleB * kB * x1;
    set_points(y, x0, even_a, odd_a, even_b, odd_b, x2);
  }

  // G': six points -> gradients of three taps
  MX_AVX512_INLINE static void taps(const Vector* x, int64_t stride, Vector* y) {
    const Vector even_a = kScaleA * (x[stride] + x[2 * stride]), odd_a = kScaleA * kA * (x[stride] - x[2 * stride]);
    const Vector even_b = kScaleB * (x[3 * stride] + x[4 * stride]);
    const Vector odd_b = kScaleB * kB * (x[3 * stride] - x[4 * stride]);
    y[0] = x[0] + even_a + even_b;
    y[1] = odd_a + odd_b;
    y[2] = kA2 * even_a + kB2 * even_b + x[5 * stride];
  }

  // The points of a square of pixels: those of its rows, then those of the columns of these.
  template <int64_t Side, void (*OfLine)(const Vector*, int64_t, Vector*)>
  MX_AVX512_INLINE static void square(const T* const* pixels, int64_t channels, T* out, int64_t step) {
    for (int64_t c = 0; c < channels; c += kLanesOf<T>) {
      Vector rows[Side][kPatch];
      for (int64_t i = 0; i < Side; ++i) {
        Vector row[Side];
        for (int64_t j = 0; j < Side; ++j) row[j] = load(pixels[i * Side + j] + c);
        OfLine(row, 1, rows[i]);
      }
      for (int64_t j = 0; j < kPatch; ++j) {
        Vector points[kPatch];
        OfLine(&rows[0][j], kPatch, points);
        for (int64_t i = 0; i < kPatch; ++i) store(out + (i * kPatch + j) * step + c, points[i]);
      }
    }
  }
};

MX_AVX512_INLINE LanesOf<float>::Vector gather(const float* p, int64_t stride) {
  return LanesOf<float>::Vector{
      p[0],           p[stride],      p[2 * stride],  p[3 * stride], p[4 * stride],  p[5 * stride],
      p[6 * stride],  p[7 * stride],  p[8 * stride],  p[9 * stride], p[10 * stride], p[11 * stride],
      p[12 * stride], p[13 * stride], p[14 * stride], p[15 * stride]};
}

MX_AVX512_INLINE LanesOf<double>::Vector gather(const double* p, int64_t stride) {
  return LanesOf<double>::Vector{
      p[0],          p[stride],     p[2 * stride], p[3 * stride],
      p[4 * stride], p[5 * stride], p[6 * stride], p[7 * stride]};
}

template <class T>
MX_AVX512_INLINE typename LanesOf<T>::Vector activated(typename LanesOf<T>::Vector x, const Epilogue<T>& e) {
  using Vector = typename LanesOf<T>::Vector;
  switch (e.activation) {
    case WinogradActivation::none: return x;
    case WinogradActivation::relu: return x < 0 ? Vector{} : x;
    case WinogradActivation::leaky: return x < 0 ? e.alpha * x : x;
    case WinogradActivation::clip: {
      const Vector low = spread(e.alpha), high = spread(e.beta);
      const Vector above = x < low ? low : x;
      return above > high ? high : above;
    }
  }
  return x;
}

}  // namespace

template <class T>
MX_AVX512 void transform_data(const T* const* pixels, int64_t channels, T* out, int64_t step) {
  Transforms<T>::template square<kPatch, Transforms<T>::data_points>(pixels, channels, out, step);
}

template <class T>
MX_AVX512 void transform_gradient(const T* const* pixels, int64_t channels, T* out, int64_t step) {
  Transforms<T>::template square<kTile, Transforms<T>::gradient_points>(pixels, channels, out, step);
}

template <class T>
MX_AVX512 void transform_result(const T* points, int64_t step, int64_t channels, const Epilogue<T>& epilogue, T* out,
                                const int64_t* pixels) {
  using Vector = typename LanesOf<T>::Vector;
  for (int64_t c = 0; c < channels; c += kLanesOf<T>) {
    Vector rows[kPatch][kTile];
    for (int64_t i = 0; i < kPatch; ++i) {
      Vector row[kPatch];
      for (int64_t j = 0; j < kPatch; ++j) row[j] = load(points + (i * kPatch + j) * step + c);
      Transforms<T>::results(row, 1, rows[i]);
    }
    const Vector bias = epilogue.bias != nullptr ? load(epilogue.bias + c) : Vector{};
    for (int64_t j = 0; j < kTile; ++j) {
      Vector column[kTile];
      Transforms<T>::results(&rows[0][j], kTile, column);
      for (int64_t i = 0; i < kTile; ++i) {
        const int64_t pixel = pixels[i * kTile + j];
        if (pixel < 0) continue;
        Vector y = column[i] + bias;
        if (epilogue.residual != nullptr) y += load(epilogue.residual + pixel + c);
        store(out + pixel + c, activated(y, epilogue));
      }
    }
  }
}

template <class T>
MX_AVX512 void transform_filters(const T* filters, const FilterLayout& layout, int64_t channel, int64_t first, T* out,
                                 int64_t step) {
  using Vector = typename LanesOf<T>::Vector;
  const T* source = filters + channel * layout.input + first * layout.output;
  Vector rows[kFilter][kPatch];
  for (int64_t i = 0; i < kFilter; ++i) {
    Vector row[kFilter];
    for (int64_t j = 0; j < kFilter; ++j) {
      const int64_t r = layout.flipped ? kFilter - 1 - i : i, s = layout.flipped ? kFilter - 1 - j : j;
      const T* tap = source + r * layout.row + s * layout.column;
      row[j] = layout.output == 1 ? load(tap) : gather(tap, layout.output);
    }
    Transforms<T>::filter_points(row, 1, rows[i]);
  }
  for (int64_t j = 0; j < kPatch; ++j) {
    Vector points[kPatch];
    Transforms<T>::filter_points(&rows[0][j], kPatch, points);
    for (int64_t i = 0; i < kPatch; ++i) store(out + (i * kPatch + j) * step, points[i]);
  }
}

template <class T>
MX_AVX512 void transform_filter_gradient(const T* points, int64_t step, T* gradient, const FilterLayout& layout) {
  using Vector = typename LanesOf<T>::Vector;
  Vector rows[kPatch][kFilter];
  for (int64_t i = 0; i < kPatch; ++i) {
    Vector row[kPatch];
    for (int64_t j = 0; j < kPatch; ++j) row[j] = load(points + (i * kPatch + j) * step);
    Transforms<T>::taps(row, 1, rows[i]);
  }
  for (int64_t j = 0; j < kFilter; ++j) {
    Vector column[kFilter];
    Transforms<T>::taps(&rows[0][j], kFilter, column);
    for (int64_t i = 0; i < kFilter; ++i) {
      T* tap = gradient + i * layout.row + j * layout.column;
      if (layout.input == 1) {
        store(tap, column[i]);
      } else {
        for (int64_t k = 0; k < kLanesOf<T>; ++k) tap[k * layout.input] = column[i][k];
      }
    }
  }
}

#define MX_INSTANTIATE(T)                                                                                          \
  template void transform_data(const T* const*, int64_t, T*, int64_t);                                             \
  template void transform_gradient(const T* const*, int64_t, T*, int64_t);                                         \
  template void transform_result(const T*, int64_t, int64_t, const Epilogue<T>&, T*, const int64_t*);              \
  template void transform_filters(const T*, const FilterLayout&, int64_t, int64_t, T*, int64_t);                   \
  template void transform_filter_gradient(const T*, int64_t, T*, const FilterLayout&);
MX_INSTANTIATE(float)
MX_INSTANTIATE(double)
#undef MX_INSTANTIATE

}  // namespace mx::cpu
