// SPDX-License-Identifier: Apache-2.0
#include "resample.hpp"

#include "linear.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mx::io {
namespace {

// For every output position, `taps` input positions and their weights.
struct Axis {
  int taps = 0;
  std::vector<int32_t> positions;
  std::vector<float> weights;
};

float cubic(float x) {
  constexpr float a = -0.75F;  // OpenCV's choice
  x = std::fabs(x);
  if (x < 1.0F) return ((a + 2.0F) * x - (a + 3.0F)) * x * x + 1.0F;
  if (x < 2.0F) return ((a * x - 5.0F * a) * x + 8.0F * a) * x - 4.0F * a;
  return 0.0F;
}

float lanczos4(float x) {
  constexpr float kPi = 3.14159265358979F;
  if (std::fabs(x) < 1e-6F) return 1.0F;
  if (std::fabs(x) >= 4.0F) return 0.0F;
  return 4.0F * std::sin(kPi * x) * std::sin(kPi * x / 4.0F) / (kPi * kPi * x * x);
}

float weight(Interpolation kernel, float distance) {
  switch (kernel) {
    case Interpolation::kCubic: return cubic(distance);
    case Interpolation::kLanczos: return lanczos4(distance);
    default: return std::max(0.0F, 1.0F - std::fabs(distance));
  }
}

Axis point_axis(int64_t from, int64_t to, Interpolation kernel) {
  Axis axis;
  axis.taps = kernel == Interpolation::kCubic ? 4 : kernel == Interpolation::kLanczos ? 8 : 2;
  axis.positions.reserve(to * axis.taps);
  axis.weights.reserve(to * axis.taps);
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  for (int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale - 0.5;
    const auto left = static_cast<int64_t>(std::floor(centre));
    float sum = 0.0F;
    const size_t begin = axis.weights.size();
    for (int t = 0; t < axis.taps; ++t) {
      const int64_t position = left - axis.taps / 2 + 1 + t;
      const float w = weight(kernel, static_cast<float>(centre - static_cast<double>(position)));
      axis.positions.push_back(static_cast<int32_t>(std::clamp<int64_t>(position, 0, from - 1)));
      axis.weights.push_back(w);
      sum += w;
    }
    for (size_t k = begin; k < axis.weights.size(); ++k) axis.weights[k] /= sum;
  }
  return axis;
}

Axis area_axis(int64_t from, int64_t to) {
  Axis axis;
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  axis.taps = static_cast<int>(std::ceil(scale)) + 1;
  axis.positions.assign(to * axis.taps, 0);
  axis.weights.assign(to * axis.taps, 0.0F);
  for (int64_t i = 0; i < to; ++i) {
    const double begin = static_cast<double>(i) * scale;
    const double end = std::min(begin + scale, static_cast<double>(from));
    const auto first = static_cast<int64_t>(begin);
    for (int t = 0; t < axis.taps; ++t) {
      const int64_t position = std::min(first + t, from - 1);
      const double left = std::max(begin, static_cast<double>(first + t));
      const double right = std::min(end, static_cast<double>(first + t + 1));
      axis.positions[i * axis.taps + t] = static_cast<int32_t>(position);
      axis.weights[i * axis.taps + t] = static_cast<float>(std::max(0.0, right - left) / (end - begin));
    }
  }
  return axis;
}

// For enlarging by area: two old positions, by the parts of the new one that they cover.
Axis partial_axis(int64_t from, int64_t to) {
  Axis axis;
  axis.taps = 2;
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double grow = static_cast<double>(to) / static_cast<double>(from);
  for (int64_t i = 0; i < to; ++i) {
    const auto left = static_cast<int64_t>(std::floor(static_cast<double>(i) * scale));
    const double end = static_cast<double>(i + 1) - static_cast<double>(left + 1) * grow;
    const auto after = static_cast<float>(end <= 0.0 ? 0.0 : end - std::floor(end));
    for (int t = 0; t < 2; ++t) {
      axis.positions.push_back(static_cast<int32_t>(std::clamp<int64_t>(left + t, 0, from - 1)));
      axis.weights.push_back(t == 0 ? 1.0F - after : after);
    }
  }
  return axis;
}

// `smaller`: no side of the image grows.
Axis make_axis(int64_t from, int64_t to, Interpolation kernel, bool smaller) {
  if (kernel != Interpolation::kArea) return point_axis(from, to, kernel);
  return smaller ? area_axis(from, to) : partial_axis(from, to);
}

int64_t nearest(int64_t i, int64_t from, int64_t to) { return std::min(i * from / to, from - 1); }

// Of an axis whose positions are neighbours.
Neighbours neighbours(const Axis& axis) {
  Neighbours found;
  for (size_t i = 0; i < axis.positions.size(); i += 2) {
    found.left.push_back(axis.positions[i]);
    found.share.push_back(axis.positions[i] == axis.positions[i + 1] ? 0.0F : axis.weights[i + 1]);
  }
  return found;
}

template <int kChannels>
void filter_row(const uint8_t* row, const Axis& axis, int64_t begin, int64_t width, int64_t channels, float* out) {
  const int64_t count = kChannels != 0 ? kChannels : channels;
  out += begin * count;
  for (int64_t x = begin; x < width; ++x) {
    const int32_t* positions = axis.positions.data() + x * axis.taps;
    const float* weights = axis.weights.data() + x * axis.taps;
    for (int64_t c = 0; c < count; ++c) {
      float sum = 0.0F;
      for (int t = 0; t < axis.taps; ++t) sum += weights[t] * row[positions[t] * count + c];
      *out++ = sum;
    }
  }
}

#if defined(__x86_64__)

// Three channels at once; kTaps 0 means any number.  The last pixel of the result is left out: four values are stored.
template <int kTaps>
__attribute__((target("sse4.1"))) void filter_three(const uint8_t* row, int64_t row_pixels, const Axis& axis,
                                                    int64_t width, float* out) {
  const int taps = kTaps != 0 ? kTaps : axis.taps;
  const auto load = [row, row_pixels](int64_t position) __attribute__((target("sse4.1"))) {
    uint32_t word;
    if (position + 1 < row_pixels) {
      std::memcpy(&word, row + 3 * position, sizeof word);
    } else {  // nothing may be read behind the row
      std::memcpy(&word, row + 3 * position - 1, sizeof word);
      word >>= 8;
    }
    return _mm_cvtepi32_ps(_mm_cvtepu8_epi32(_mm_cvtsi32_si128(static_cast<int>(word))));
  };
  for (int64_t x = 0; x + 1 < width; ++x) {
    const int32_t* positions = axis.positions.data() + x * taps;
    const float* weights = axis.weights.data() + x * taps;
    __m128 sum = _mm_mul_ps(_mm_set1_ps(weights[0]), load(positions[0]));
    for (int t = 1; t < taps; ++t) sum = _mm_add_ps(sum, _mm_mul_ps(_mm_set1_ps(weights[t]), load(positions[t])));
    _mm_storeu_ps(out + 3 * x, sum);
  }
}

#endif

// How many pixels of a filtered row have been written; the others are for filter_row.
int64_t filter_quickly(const uint8_t* row, int64_t row_pixels, int64_t channels, const Axis& axis, int64_t width,
                       float* out) {
#if defined(__x86_64__)
  static const bool can = __builtin_cpu_supports("sse4.1");
  if (can && channels == 3 && row_pixels > 1) {
    (axis.taps == 2 ? filter_three<2> : filter_three<0>)(row, row_pixels, axis, width, out);
    return width - 1;
  }
#endif
  (void)row, (void)row_pixels, (void)channels, (void)axis, (void)width, (void)out;
  return 0;
}

// The rows an output row needs, filtered along x, kept for the next output row.
class FilteredRows {
 public:
  FilteredRows(const ImageView& source, const Axis& columns, int64_t width, int capacity)
      : source_(source), columns_(columns), width_(width), values_(width * source.channels),
        rows_(capacity * values_), kept_(capacity, -1) {}

  const float* row(int64_t y) {
    const int64_t slot = y % static_cast<int64_t>(kept_.size());
    float* out = rows_.data() + slot * values_;
    if (kept_[slot] == y) return out;
    kept_[slot] = y;
    const int64_t done = filter_quickly(source_.row(y), source_.width, source_.channels, columns_, width_, out);
    switch (source_.channels) {
      case 1: filter_row<1>(source_.row(y), columns_, done, width_, 1, out); break;
      case 3: filter_row<3>(source_.row(y), columns_, done, width_, 3, out); break;
      default: filter_row<0>(source_.row(y), columns_, done, width_, source_.channels, out);
    }
    return out;
  }

 private:
  const ImageView& source_;
  const Axis& columns_;
  int64_t width_;
  int64_t values_;
  std::vector<float> rows_;
  std::vector<int64_t> kept_;
};

void saturate_all(const float* values, int64_t count, uint8_t* out) {
  int64_t i = 0;
#if defined(__x86_64__)
  const __m128 half = _mm_set1_ps(0.5F);
  const auto rounded = [&](int64_t at) { return _mm_cvttps_epi32(_mm_add_ps(_mm_loadu_ps(values + at), half)); };
  for (; i + 16 <= count; i += 16) {
    const __m128i low = _mm_packs_epi32(rounded(i), rounded(i + 4));
    const __m128i high = _mm_packs_epi32(rounded(i + 8), rounded(i + 12));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm_packus_epi16(low, high));
  }
#endif
  for (; i < count; ++i) out[i] = saturate(values[i]);
}

}  // namespace

struct ResizedRows::Linear {
  LinearRows rows;
};

struct ResizedRows::Filtered {
  Axis rows, columns;
  FilteredRows filtered;
  std::vector<float> sums;

  Filtered(const ImageView& source, Axis r, Axis c, int64_t width)
      : rows(std::move(r)), columns(std::move(c)), filtered(source, columns, width, rows.taps),
        sums(static_cast<size_t>(width * source.channels)) {}

  void row(int64_t y, uint8_t* out) {
    const auto count = static_cast<int64_t>(sums.size());
    bool begun = false;
    for (int t = 0; t < rows.taps; ++t) {
      const float w = rows.weights[y * rows.taps + t];
      if (w == 0.0F) continue;
      const float* row = filtered.row(rows.positions[y * rows.taps + t]);
      if (begun) {
        for (int64_t i = 0; i < count; ++i) sums[i] += w * row[i];
      } else {
        for (int64_t i = 0; i < count; ++i) sums[i] = w * row[i];
      }
      begun = true;
    }
    if (!begun) std::fill(sums.begin(), sums.end(), 0.0F);
    saturate_all(sums.data(), count, out);
  }
};

ResizedRows::ResizedRows(const ImageView& source, int64_t height, int64_t width, Interpolation kernel)
    : source_(source), height_(height), width_(width) {
  if ((height == source.height && width == source.width) || kernel == Interpolation::kNearest) return;
  const bool smaller = height <= source.height && width <= source.width;
  Axis rows = make_axis(source.height, height, kernel, smaller);
  Axis columns = make_axis(source.width, width, kernel, smaller);
  if (kernel == Interpolation::kLinear || (kernel == Interpolation::kArea && !smaller)) {
    linear_ = std::make_unique<Linear>();
    linear_->rows.begin(source_, neighbours(rows), neighbours(columns));
  } else {
    filtered_ = std::make_unique<Filtered>(source_, std::move(rows), std::move(columns), width);
  }
}

ResizedRows::~ResizedRows() = default;

void ResizedRows::row(int64_t y, uint8_t* out) {
  if (linear_) {
    linear_->rows.row(y, out);
  } else if (filtered_) {
    filtered_->row(y, out);
  } else {  // of the same size, too
    const auto pixel = static_cast<size_t>(source_.channels);
    const uint8_t* row = source_.row(nearest(y, source_.height, height_));
    if (width_ == source_.width) {
      std::memcpy(out, row, pixel * static_cast<size_t>(width_));
      return;
    }
    for (int64_t x = 0; x < width_; ++x, out += pixel) {
      std::memcpy(out, row + nearest(x, source_.width, width_) * source_.channels, pixel);
    }
  }
}

void resize(const ImageView& source, uint8_t* out, int64_t height, int64_t width, Interpolation kernel) {
  const int64_t row_bytes = width * source.channels;
  ResizedRows rows(source, height, width, kernel);
  std::vector<uint8_t> last(static_cast<size_t>(row_bytes + ResizedRows::kSlack));
  for (int64_t y = 0; y < height; ++y, out += row_bytes) {
    const bool room = (height - 1 - y) * row_bytes >= ResizedRows::kSlack;
    rows.row(y, room ? out : last.data());
    if (!room) std::memcpy(out, last.data(), static_cast<size_t>(row_bytes));
  }
}

Interpolation choose_interpolation(const ImageView& source, int64_t height, int64_t width) {
  if (height > source.height && width > source.width) return Interpolation::kCubic;
  if (height < source.height && width < source.width) return Interpolation::kArea;
  return Interpolation::kLinear;
}

}  // namespace mx::io
