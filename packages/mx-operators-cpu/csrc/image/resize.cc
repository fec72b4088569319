// SPDX-License-Identifier: Apache-2.0
//
// Rows of the image are mixed along columns first, each once; rows of the result are mixtures of these.
#include <algorithm>
#include <cmath>
#include <limits>
#include <variant>

#include "common/clones.hpp"
#include "image/images.hpp"
#include "simd/loops.hpp"
#include "indexing/strided_copy.hpp"
#include "common/parallel.hpp"
#include "common/upcast.hpp"

namespace mx::cpu {
namespace {

constexpr int kBits = 11;  // of the weights of 8-bit images

template <class T>
struct Entries {
  std::vector<int64_t> begins, places;  // elements of a row
  std::vector<T> weights;
  int64_t each = 0;  // entries of every row, where all have as many
};

template <class T>
Entries<T> entries(const Mixing& mixing, int64_t step) {
  Entries<T> made{mixing.begins, mixing.columns, {}};
  for (int64_t& place : made.places) place *= step;
  for (double weight : mixing.weights)
    made.weights.push_back(std::is_integral_v<T> ? static_cast<T>(std::rint(weight * (1 << kBits))) : static_cast<T>(weight));
  made.each = made.begins.size() > 1 ? made.begins[1] : 0;
  for (size_t i = 1; i < made.begins.size(); ++i)
    if (made.begins[i] != static_cast<int64_t>(i) * made.each) made.each = 0;
  return made;
}

// Four channels at once, also where a pixel has three: rows have room for one element more.
template <class T>
struct Pixel {
  typedef T Vector __attribute__((vector_size(4 * sizeof(T)), may_alias));
};
constexpr int64_t kRoom = 4;

template <class T, int64_t Each>
MX_INLINE void mix_pixels(T* to, const T* from, const Entries<T>& columns, int64_t channels) {
  using Vector = typename Pixel<T>::Vector;
  const int64_t* place = columns.places.data();
  const T* weight = columns.weights.data();
  for (size_t j = 0; j + 1 < columns.begins.size(); ++j, to += channels) {
    const int64_t n = Each > 0 ? Each : columns.begins[j + 1] - columns.begins[j];
    Vector sum = {};
    for (int64_t e = 0; e < n; ++e) {
      Vector pixel;
      __builtin_memcpy(&pixel, from + *place++, sizeof pixel);
      sum += *weight++ * pixel;
    }
    __builtin_memcpy(to, &sum, sizeof sum);
  }
}

template <class T>
MX_INLINE void mix_color(T* to, const T* from, const Entries<T>& columns, int64_t channels) {
  columns.each == 2   ? mix_pixels<T, 2>(to, from, columns, channels)
  : columns.each == 4 ? mix_pixels<T, 4>(to, from, columns, channels)
                      : mix_pixels<T, 0>(to, from, columns, channels);
}

template <class T>
void mix_columns(T* to, const T* from, const Entries<T>& columns, int64_t channels) {
  if (channels == 3 || channels == 4) return best_clone<mix_color<T>>(to, from, columns, channels);
  for (size_t j = 0; j + 1 < columns.begins.size(); ++j, to += channels)
    for (int64_t c = 0; c < channels; ++c) {
      T sum = T(0);
      for (auto e = static_cast<size_t>(columns.begins[j]); e < static_cast<size_t>(columns.begins[j + 1]); ++e)
        sum += columns.weights[e] * from[columns.places[e] + c];
      to[c] = sum;
    }
}

template <class T, class Sum>
MX_INLINE void add_row(Sum* __restrict sums, const T* __restrict row, T weight, int64_t n) {
  for (int64_t i = 0; i < n; ++i) sums[i] += static_cast<Sum>(row[i]) * static_cast<Sum>(weight);
}
MX_CLONES(void, round_pixels, (int64_t* sums, int64_t n), (sums, n)) {
  constexpr int64_t half = int64_t{1} << (2 * kBits - 1);
  for (int64_t i = 0; i < n; ++i) sums[i] = std::clamp<int64_t>((sums[i] + half) >> (2 * kBits), 0, 255);
}

class ImageResizePlan final : public Plan {
 public:
  ImageResizePlan(std::vector<Spec> inputs, std::vector<Spec> outputs, const Mixing& rows, const Mixing& columns,
                  Rounding rounding)
      : Plan(std::move(inputs), std::move(outputs)),
        compute_(rounding != Rounding::kNone ? I32 : compute_of(inputs_[0].dtype) == F32 ? F32 : F64),
        height_(inputs_[0].shape[inputs_[0].shape.size() - 3]),
        width_(inputs_[0].shape[inputs_[0].shape.size() - 2]),
        channels_(inputs_[0].shape.back()),
        rows_(rows.rows()),
        columns_(columns.rows()),
        mixes_(compute_ == F64   ? mixes<double>(rows, columns)
               : compute_ == F32 ? mixes<float>(rows, columns)
                                 : mixes<int32_t>(rows, columns)),
        used_(static_cast<size_t>(height_), false) {
    for (int64_t place : rows.columns) used_[static_cast<size_t>(place)] = true;
    mixed_ = add_scratch(static_cast<size_t>(height_ * mixed_row()) * sizeof(double));
    const int64_t row = std::max(width_ * channels_ + kRoom, columns_ * channels_);
    row_ = add_thread_scratch(static_cast<size_t>(row) * sizeof(double));
  }

 protected:
  void execute(const Call& call) const override {
    if (!call.wanted(0) || outputs_[0].size() == 0) return;
    if (compute_ == F64) return compute<double, double>(call);
    if (compute_ == F32) return compute<float, float>(call);
    compute<int32_t, int64_t>(call);
  }

 private:
  // What rows and columns are mixed of.
  template <class T>
  struct Mixes {
    Entries<T> along, down;
  };
  using AnyMixes = std::variant<Mixes<float>, Mixes<double>, Mixes<int32_t>>;

  template <class T>
  AnyMixes mixes(const Mixing& rows, const Mixing& columns) const {
    return Mixes<T>{entries<T>(columns, channels_), entries<T>(rows, mixed_row())};
  }
  int64_t mixed_row() const { return columns_ * channels_ + kRoom; }

  template <class T, class Sum>
  void compute(const Call& call) const {
    const auto& mixes = std::get<Mixes<T>>(mixes_);
    const Entries<T>&along = mixes.along, &down = mixes.down;
    const int64_t images = inputs_[0].size() / (height_ * width_ * channels_);
    T* mixed = call.scratch<T>(mixed_);
    for (int64_t image = 0; image < images; ++image) {
      parallel_for(height_, 8, [&](int64_t begin, int64_t end, int thread) {
        for (int64_t row = begin; row < end; ++row)
          if (used_[static_cast<size_t>(row)]) 
            mix_row(call, along, image, row, row_.of<T>(call, thread), mixed + row * mixed_row());
      });
      parallel_for(rows_, 8, [&](int64_t begin, int64_t end, int thread) {
        for (int64_t row = begin; row < end; ++row) 
          finish_row(call, down, image, row, mixed, row_.of<Sum>(call, thread));
      });
    }
  }

  template <class T>
  void mix_row(const Call& call, const Entries<T>& along, int64_t image, int64_t row, T* from, T* to) const {
    const int64_t n = width_ * channels_;
    const int dtype = inputs_[0].dtype;
    const char* source = call.input(0) + (image * height_ + row) * n * static_cast<int64_t>(item_size(dtype));
    loops().load[dtype][compute_](from, source, static_cast<size_t>(n));
    std::fill_n(from + n, kRoom, T(0));
    mix_columns(to, from, along, channels_);
  }

  template <class T, class Sum>
  void finish_row(const Call& call, const Entries<T>& down, int64_t image, int64_t row, const T* mixed,
                  Sum* sums) const {
    const int64_t n = columns_ * channels_;
    std::fill_n(sums, n, Sum(0));
    for (int64_t e = down.begins[static_cast<size_t>(row)]; e < down.begins[static_cast<size_t>(row) + 1]; ++e) {
      const T* from = mixed + down.places[static_cast<size_t>(e)];
      const T weight = down.weights[static_cast<size_t>(e)];
      best_clone<add_row<T, Sum>>(sums, from, weight, n);
    }
    round(sums, n);
    constexpr Compute kind = ComputeOf<Sum>::code;
    for (int64_t i = 0; i < n; i += kDelivered)
      deliver(call, 0, outputs_[0], kind, sums + i, (image * rows_ + row) * n + i, std::min(kDelivered, n - i));
  }

  template <class Sum>
  void round(Sum* sums, int64_t n) const {
    if constexpr (std::is_integral_v<Sum>) {
      round_pixels(sums, n);
    } else if (!floating(outputs_[0].dtype)) {
      const bool is_signed = outputs_[0].dtype == MX_INT8;
      const Sum low = is_signed ? Sum(-128) : Sum(0), high = is_signed ? Sum(127) : Sum(255);
      // float32 has the halves that sums of thirds miss by the last digits of double.
      for (int64_t i = 0; i < n; ++i)
        sums[i] = std::clamp(static_cast<Sum>(std::rint(static_cast<float>(sums[i]))), low, high);
    }
  }

  const Compute compute_;
  const int64_t height_, width_, channels_, rows_, columns_;
  const AnyMixes mixes_;
  std::vector<bool> used_;
  Section mixed_;
  PerThread row_;
};

bool valid(const Mixing& mixing, int64_t extent) {
  const auto n = static_cast<int64_t>(mixing.columns.size());
  if (mixing.begins.empty() || mixing.begins.front() != 0 || mixing.begins.back() != n ||
      mixing.weights.size() != mixing.columns.size() || !std::is_sorted(mixing.begins.begin(), mixing.begins.end()))
    return false;
  return std::all_of(mixing.columns.begin(), mixing.columns.end(), [&](int64_t place) { return place >= 0 && place < extent; });
}

}  // namespace

PlanPtr make_image_resize_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, Mixing rows, Mixing columns,
                               Rounding rounding) {
  fits(inputs.size() == 1 && outputs.size() == 1 && inputs[0].shape.size() >= 3 && inputs[0].dtype == outputs[0].dtype, "_image_resize");
  const Shape& shape = inputs[0].shape;
  const int64_t height = shape[shape.size() - 3], width = shape[shape.size() - 2];
  fits(valid(rows, height) && valid(columns, width) && height > 0 && width > 0 &&
           outputs[0].size() == inputs[0].size() / (height * width) * rows.rows() * columns.rows(),
       "_image_resize");
  const int dtype = inputs[0].dtype;
  const bool small = dtype == MX_UINT8 || dtype == MX_INT8;
  if (rounding != Rounding::kNone ? dtype != MX_UINT8 : !small && !floating(dtype))
    throw Error(MX_ERROR_UNSUPPORTED, "[_image_resize] no loops for type code " + std::to_string(dtype));
  if (rounding == Rounding::kPaired) return make_paired_resize_plan(std::move(inputs), std::move(outputs), rows, columns);
  return std::make_unique<ImageResizePlan>(std::move(inputs), std::move(outputs), rows, columns, rounding);
}

}  // namespace mx::cpu
