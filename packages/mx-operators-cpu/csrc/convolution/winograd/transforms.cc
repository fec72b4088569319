// SPDX-License-Identifier: Apache-2.0
#include "convolution/winograd/transforms.hpp"

namespace mx::cpu {
namespace {

// The points' absolute values and their squares; kA * kB = 1.
constexpr float kA = 0.70710678f, kB = 1.41421356f;
constexpr float kA2 = 0.5f, kB2 = 2.0f, kSum = kA2 + kB2;
// 1 / prod(p - q) over the other finite points q, for p = 0 (which is 1), +-kA and +-kB.
constexpr float kScaleA = 1 / (2 * kA2 * (kA2 - kB2)), kScaleB = 1 / (2 * kB2 * (kB2 - kA2));

// The values at 0, +-kA, +-kB and infinity, from their even and odd parts.
MX_AVX512_INLINE void set_points(Lanes* y, Lanes zero, Lanes even_a, Lanes odd_a, Lanes even_b, Lanes odd_b,
                                 Lanes infinity) {
  y[0] = zero;
  y[1] = even_a + odd_a;
  y[2] = even_a - odd_a;
  y[3] = even_b + odd_b;
  y[4] = even_b - odd_b;
  y[5] = infinity;
}

// The one-dimensional transforms; `stride` is between the values that they read.

// B': six values -> six points
MX_AVX512_INLINE void data_points(const Lanes* x, int64_t stride, Lanes* y) {
  const Lanes x0 = x[0], x1 = x[stride], x2 = x[2 * stride], x3 = x[3 * stride], x4 = x[4 * stride], x5 = x[5 * stride];
  const Lanes even_a = x4 - kB2 * x2, odd_a = kA * (x3 - kB2 * x1);
  const Lanes even_b = x4 - kA2 * x2, odd_b = kB * (x3 - kA2 * x1);
  set_points(y, x0 - kSum * x2 + x4, even_a, odd_a, even_b, odd_b, x1 - kSum * x3 + x5);
}

// A': six points -> four results
MX_AVX512_INLINE void results(const Lanes* x, int64_t stride, Lanes* y) {
  const Lanes even_a = x[stride] + x[2 * stride], odd_a = x[stride] - x[2 * stride];
  const Lanes even_b = x[3 * stride] + x[4 * stride], odd_b = x[3 * stride] - x[4 * stride];
  y[0] = x[0] + even_a + even_b;
  y[1] = kA * odd_a + kB * odd_b;
  y[2] = kA2 * even_a + kB2 * even_b;
  y[3] = kA * kA2 * odd_a + kB * kB2 * odd_b + x[5 * stride];
}

// A: four gradients of results -> six points
MX_AVX512_INLINE void gradient_points(const Lanes* x, int64_t stride, Lanes* y) {
  const Lanes x0 = x[0], x1 = x[stride], x2 = x[2 * stride], x3 = x[3 * stride];
  const Lanes even_a = x0 + kA2 * x2, odd_a = kA * (x1 + kA2 * x3);
  const Lanes even_b = x0 + kB2 * x2, odd_b = kB * (x1 + kB2 * x3);
  set_points(y, x0, even_a, odd_a, even_b, odd_b, x3);
}

// G: three taps -> six points
MX_AVX512_INLINE void filter_points(const Lanes* x, int64_t stride, Lanes* y) {
  const Lanes x0 = x[0], x1 = x[stride], x2 = x[2 * stride];
  const Lanes even_a = kScaleA * (x0 + kA2 * x2), odd_a = kScaleA * kA * x1;
  const Lanes even_b = kScaleB * (x0 + kB2 * x2), odd_b = kScaleB * kB * x1;
  set_points(y, x0, even_a, odd_a, even_b, odd_b, x2);
}

// G': six points -> gradients of three taps
MX_AVX512_INLINE void taps(const Lanes* x, int64_t stride, Lanes* y) {
  const Lanes even_a = kScaleA * (x[stride] + x[2 * stride]), odd_a = kScaleA * kA * (x[stride] - x[2 * stride]);
  const Lanes even_b = kScaleB * (x[3 * stride] + x[4 * stride]), odd_b = kScaleB * kB * (x[3 * stride] - x[4 * stride]);
  y[0] = x[0] + even_a + even_b;
  y[1] = odd_a + odd_b;
  y[2] = kA2 * even_a + kB2 * even_b + x[5 * stride];
}

MX_AVX512_INLINE Lanes gather(const float* p, int64_t stride) {
  return Lanes{p[0],           p[stride],      p[2 * stride],  p[3 * stride], p[4 * stride],  p[5 * stride],
               p[6 * stride],  p[7 * stride],  p[8 * stride],  p[9 * stride], p[10 * stride], p[11 * stride],
               p[12 * stride], p[13 * stride], p[14 * stride], p[15 * stride]};
}

MX_AVX512_INLINE Lanes activated(Lanes x, const Epilogue& e) {
  switch (e.activation) {
    case Epilogue::Activation::none: return x;
    case Epilogue::Activation::relu: return x < 0 ? Lanes{} : x;
    case Epilogue::Activation::leaky: return x < 0 ? e.alpha * x : x;
    case Epilogue::Activation::clip: {
      const Lanes low = spread(e.alpha), high = spread(e.beta);
      const Lanes above = x < low ? low : x;
      return above > high ? high : above;
    }
  }
  return x;
}

// The points of a square of pixels: those of its rows, then those of the columns of these.
template <int64_t Side, void (*Points)(const Lanes*, int64_t, Lanes*)>
MX_AVX512_INLINE void transform_square(const float* const* pixels, int64_t channels, float* out, int64_t step) {
  for (int64_t c = 0; c < channels; c += kLanes) {
    Lanes rows[Side][kPatch];
    for (int64_t i = 0; i < Side; ++i) {
      Lanes row[Side];
      for (int64_t j = 0; j < Side; ++j) row[j] = load(pixels[i * Side + j] + c);
      Points(row, 1, rows[i]);
    }
    for (int64_t j = 0; j < kPatch; ++j) {
      Lanes points[kPatch];
      Points(&rows[0][j], kPatch, points);
      for (int64_t i = 0; i < kPatch; ++i) store(out + (i * kPatch + j) * step + c, points[i]);
    }
  }
}

}  // namespace

MX_AVX512 void transform_data(const float* const* pixels, int64_t channels, float* out, int64_t step) {
  transform_square<kPatch, data_points>(pixels, channels, out, step);
}

MX_AVX512 void transform_gradient(const float* const* pixels, int64_t channels, float* out, int64_t step) {
  transform_square<kTile, gradient_points>(pixels, channels, out, step);
}

MX_AVX512 void transform_result(const float* points, int64_t step, int64_t channels, const Epilogue& epilogue,
                                float* out, const int64_t* pixels) {
  for (int64_t c = 0; c < channels; c += kLanes) {
    Lanes rows[kPatch][kTile];
    for (int64_t i = 0; i < kPatch; ++i) {
      Lanes row[kPatch];
      for (int64_t j = 0; j < kPatch; ++j) row[j] = load(points + (i * kPatch + j) * step + c);
      results(row, 1, rows[i]);
    }
    const Lanes bias = epilogue.bias != nullptr ? load(epilogue.bias + c) : Lanes{};
    for (int64_t j = 0; j < kTile; ++j) {
      Lanes column[kTile];
      results(&rows[0][j], kTile, column);
      for (int64_t i = 0; i < kTile; ++i) {
        const int64_t pixel = pixels[i * kTile + j];
        if (pixel < 0) continue;
        Lanes y = column[i] + bias;
        if (epilogue.residual != nullptr) y += load(epilogue.residual + pixel + c);
        store(out + pixel + c, activated(y, epilogue));
      }
    }
  }
}

MX_AVX512 void transform_filters(const float* filters, const FilterLayout& layout, int64_t channel, int64_t first,
                                 float* out, int64_t step) {
  const float* source = filters + channel * layout.input + first * layout.output;
  Lanes rows[kFilter][kPatch];
  for (int64_t i = 0; i < kFilter; ++i) {
    Lanes row[kFilter];
    for (int64_t j = 0; j < kFilter; ++j) {
      const int64_t r = layout.flipped ? kFilter - 1 - i : i, s = layout.flipped ? kFilter - 1 - j : j;
      const float* tap = source + r * layout.row + s * layout.column;
      row[j] = layout.output == 1 ? load(tap) : gather(tap, layout.output);
    }
    filter_points(row, 1, rows[i]);
  }
  for (int64_t j = 0; j < kPatch; ++j) {
    Lanes points[kPatch];
    filter_points(&rows[0][j], kPatch, points);
    for (int64_t i = 0; i < kPatch; ++i) store(out + (i * kPatch + j) * step, points[i]);
  }
}

MX_AVX512 void transform_filter_gradient(const float* points, int64_t step, float* gradient,
                                         const FilterLayout& layout) {
  Lanes rows[kPatch][kFilter];
  for (int64_t i = 0; i < kPatch; ++i) {
    Lanes row[kPatch];
    for (int64_t j = 0; j < kPatch; ++j) row[j] = load(points + (i * kPatch + j) * step);
    taps(row, 1, rows[i]);
  }
  for (int64_t j = 0; j < kFilter; ++j) {
    Lanes column[kFilter];
    taps(&rows[0][j], kFilter, column);
    for (int64_t i = 0; i < kFilter; ++i) {
      float* tap = gradient + i * layout.row + j * layout.column;
      if (layout.input == 1) {
        store(tap, column[i]);
      } else {
        for (int64_t k = 0; k < kLanes; ++k) tap[k * layout.input] = column[i][k];
      }
    }
  }
}

}  // namespace mx::cpu
