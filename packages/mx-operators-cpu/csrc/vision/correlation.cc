// SPDX-License-Identifier: Apache-2.0
//
// The maps are padded first; then rows of them meet rows of the result.
#include "vision/correlation.hpp"

#include <algorithm>
#include <cmath>

#include "common/clones.hpp"
#include "common/parallel.hpp"
#include "common/upcast.hpp"

namespace mx::cpu {
namespace {

// to[i] += a[i * stride] * b[i * stride], or the absolute difference.
template <class T>
MX_INLINE void meet(T* __restrict to, const T* a, const T* b, int64_t n, int64_t stride, bool multiply) {
  if (stride == 1 && multiply) {
    for (int64_t i = 0; i < n; ++i) to[i] += a[i] * b[i];
  } else if (multiply) {
    for (int64_t i = 0; i < n; ++i) to[i] += a[i * stride] * b[i * stride];
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] += std::fabs(a[i * stride] - b[i * stride]);
  }
}
MX_CLONES(void, meet_rows, (float* __restrict to, const float* a, const float* b, int64_t n, int64_t stride,
                            bool multiply), (to, a, b, n, stride, multiply)) {
  meet(to, a, b, n, stride, multiply);
}
void meet_rows(double* __restrict to, const double* a, const double* b, int64_t n, int64_t stride, bool multiply) {
  meet(to, a, b, n, stride, multiply);
}

// Gradients of `meet` for one of its operands: to[i * stride] += share[i] * other[i * stride], or signs.
template <class T>
MX_INLINE void part(T* __restrict to, const T* share, const T* own, const T* other, int64_t n, int64_t stride,
                    bool multiply, bool first) {
  if (stride == 1 && multiply) {
    for (int64_t i = 0; i < n; ++i) to[i] += share[i] * other[i];
  } else if (multiply) {
    for (int64_t i = 0; i < n; ++i) to[i * stride] += share[i] * other[i * stride];
  } else if (first) {
    for (int64_t i = 0; i < n; ++i) to[i * stride] += own[i * stride] >= other[i * stride] ? share[i] : -share[i];
  } else {
    for (int64_t i = 0; i < n; ++i) to[i * stride] += other[i * stride] >= own[i * stride] ? -share[i] : share[i];
  }
}
MX_CLONES(void, part_rows, (float* __restrict to, const float* share, const float* own, const float* other, int64_t n,
                            int64_t stride, bool multiply, bool first),
          (to, share, own, other, n, stride, multiply, first)) {
  part(to, share, own, other, n, stride, multiply, first);
}
void part_rows(double* __restrict to, const double* share, const double* own, const double* other, int64_t n,
               int64_t stride, bool multiply, bool first) {
  part(to, share, own, other, n, stride, multiply, first);
}

class CorrelationBase : public UpcastPlan {
 public:
  CorrelationBase(std::vector<Spec> inputs, std::vector<Spec> outputs, const Spec& data, const Spec& result,
                  const CorrelationOptions& options)
      : UpcastPlan(inputs, outputs, data.dtype, 4 * result.size() * data.shape[1] * options.kernel * options.kernel),
        o_(options),
        batch_(data.shape[0]),
        channels_(data.shape[1]),
        in_height_(data.shape[2]),
        in_width_(data.shape[3]),
        height_(data.shape[2] + 2 * options.pad),
        width_(data.shape[3] + 2 * options.pad),
        radius_(options.displacement / options.step),
        side_(2 * radius_ + 1),
        out_height_(result.shape[2]),
        out_width_(result.shape[3]) {
    const size_t item = type_ == F64 ? sizeof(double) : sizeof(float);
    const int64_t row = std::max(side_ * side_ * out_width_, padded() + out_width_);  // forward, backward
    if (o_.pad > 0) padded_maps_ = add_scratch(static_cast<size_t>(2 * batch_ * channels_ * padded()) * item);
    sums_ = add_thread_scratch(static_cast<size_t>(row) * item);
  }

 protected:
  int64_t padded() const { return height_ * width_; }
  int64_t out_area() const { return out_height_ * out_width_; }
  // Where element (y, x) of a patch at (0, 0) lies in the padded map.
  int64_t at(int64_t y, int64_t x) const { return (o_.displacement + y) * width_ + o_.displacement + x; }

  // Both maps with zeros around, in scratch memory; or as they are.
  template <class T>
  void pad(const Call& call, const T*& a, const T*& b) const {
    if (o_.pad == 0) return;
    const int64_t planes = batch_ * channels_;
    T* made = call.scratch<T>(padded_maps_);
    const T* given[2] = {a, b};
    parallel_for(2 * planes, 4, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const T* from = given[p / planes] + p % planes * in_height_ * in_width_;
        T* to = made + p * padded();
        std::fill_n(to, padded(), T(0));
        for (int64_t y = 0; y < in_height_; ++y)
          std::copy_n(from + y * in_width_, in_width_, to + (y + o_.pad) * width_ + o_.pad);
      }
    });
    a = made;
    b = made + planes * padded();
  }

  template <class T>
  T share() const {
    return T(1) / static_cast<T>(channels_ * o_.kernel * o_.kernel);
  }

  const CorrelationOptions o_;
  const int64_t batch_, channels_, in_height_, in_width_;
  const int64_t height_, width_;  // with the padding
  const int64_t radius_, side_, out_height_, out_width_;
  Section padded_maps_;
  PerThread sums_;
};

class CorrelationPlan final : public CorrelationBase {
 public:
  CorrelationPlan(std::vector<Spec> inputs, std::vector<Spec> outputs, const CorrelationOptions& options)
      : CorrelationBase(inputs, outputs, inputs[0], outputs[0], options) {}

 protected:
  void execute(const Call& call) const override { type_ == F64 ? compute<double>(call) : compute<float>(call); }

 private:
  template <class T>
  void compute(const Call& call) const {
    Result<T> output(*this, call, 0);
    if (output.data() == nullptr || outputs_[0].size() == 0) return;
    const T *a = read<T>(call, 0), *b = read<T>(call, 1);
    pad(call, a, b);
    // A row of the result for all displacements at a time: the rows of the maps stay in the cache.
    parallel_for(batch_ * out_height_, 1, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t task = begin; task < end; ++task)
        row(a, b, task / out_height_, task % out_height_, sums_.of<T>(call, thread), output.data());
    });
    output.deliver();
  }

  template <class T>
  void row(const T* a, const T* b, int64_t image, int64_t y, T* sums, T* output) const {
    const int64_t displacements = side_ * side_;
    std::fill_n(sums, displacements * out_width_, T(0));
    for (int64_t c = image * channels_; c < (image + 1) * channels_; ++c)
      for (int64_t ky = 0; ky < o_.kernel; ++ky)
        for (int64_t kx = 0; kx < o_.kernel; ++kx) {
          const int64_t place = c * padded() + at(ky, kx) + y * o_.stride * width_;
          for (int64_t d = 0; d < displacements; ++d) {
            const int64_t shift = ((d / side_ - radius_) * width_ + d % side_ - radius_) * o_.step;
            meet_rows(sums + d * out_width_, a + place, b + place + shift, out_width_, o_.stride, o_.multiply);
          }
        }
    for (int64_t d = 0; d < displacements; ++d) {
      T* to = output + (image * displacements + d) * out_area() + y * out_width_;
      for (int64_t x = 0; x < out_width_; ++x) to[x] = sums[d * out_width_ + x] * share<T>();
    }
  }
};

class CorrelationBackwardPlan final : public CorrelationBase {
 public:
  CorrelationBackwardPlan(std::vector<Spec> inputs, std::vector<Spec> outputs, const CorrelationOptions& options)
      : CorrelationBase(inputs, outputs, inputs[1], inputs[0], options) {}

 protected:
  void execute(const Call& call) const override { type_ == F64 ? compute<double>(call) : compute<float>(call); }

 private:
  template <class T>
  void compute(const Call& call) const {
    Result<T> first(*this, call, 0), second(*this, call, 1);
    if (outputs_[0].size() > 0) {
      const T *head = read<T>(call, 0), *a = read<T>(call, 1), *b = read<T>(call, 2);
      pad(call, a, b);
      parallel_for(batch_ * channels_, 1, [&](int64_t begin, int64_t end, int thread) {
        T* memory = sums_.of<T>(call, thread);
        for (int64_t plane = begin; plane < end; ++plane) {
          const T* heads = head + plane / channels_ * side_ * side_ * out_area();
          const T *one = a + plane * padded(), *other = b + plane * padded();
          if (first.data() != nullptr) map(heads, one, other, true, memory, first.data() + plane * in_height_ * in_width_);
          if (second.data() != nullptr) map(heads, other, one, false, memory, second.data() + plane * in_height_ * in_width_);
        }
      });
    }
    first.deliver();
    second.deliver();
  }

  // The gradient of one plane of one map.
  template <class T>
  void map(const T* heads, const T* own, const T* other, bool first, T* memory, T* grad) const {
    T *sums = memory, *shares = memory + padded();
    std::fill_n(sums, padded(), T(0));
    for (int64_t d = 0; d < side_ * side_; ++d) {
      const int64_t shift = ((d / side_ - radius_) * width_ + d % side_ - radius_) * o_.step;
      for (int64_t y = 0; y < out_height_; ++y) {
        const T* head = heads + d * out_area() + y * out_width_;
        for (int64_t x = 0; x < out_width_; ++x) shares[x] = head[x] * share<T>();
        for (int64_t ky = 0; ky < o_.kernel; ++ky)
          for (int64_t kx = 0; kx < o_.kernel; ++kx) {
            const int64_t place = at(ky, kx) + y * o_.stride * width_;
            const int64_t mine = first ? place : place + shift, its = first ? place + shift : place;
            part_rows(sums + mine, shares, own + mine, other + its, out_width_, o_.stride, o_.multiply, first);
          }
      }
    }
    for (int64_t y = 0; y < in_height_; ++y)
      std::copy_n(sums + (y + o_.pad) * width_ + o_.pad, in_width_, grad + y * in_width_);
  }
};

void check(const Spec& data, const Spec& other, const Spec& result, const CorrelationOptions& o) {
  fits(data.shape.size() == 4 && other.shape == data.shape && result.shape.size() == 4 && o.kernel >= 1 &&
           o.displacement >= 0 && o.stride >= 1 && o.step >= 1 && o.pad >= 0,
       "Correlation");
  const int64_t side = 2 * (o.displacement / o.step) + 1, border = 2 * (o.displacement + o.kernel / 2);
  fits(result.shape[0] == data.shape[0] && result.shape[1] == side * side, "Correlation");
  for (size_t k = 2; k < 4; ++k) {
    const int64_t inner = data.shape[k] + 2 * o.pad - border;
    fits(inner >= 1 && result.shape[k] == (inner + o.stride - 1) / o.stride, "Correlation");
  }
}

}  // namespace

PlanPtr make_correlation_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const CorrelationOptions& o) {
  if (inputs.size() != 2 || outputs.size() != 1) throw Error(MX_ERROR_VALUE, "[Correlation] expected two inputs");
  check(inputs[0], inputs[1], outputs[0], o);
  return std::make_unique<CorrelationPlan>(std::move(inputs), std::move(outputs), o);
}

PlanPtr make_correlation_backward_plan(std::vector<Spec> inputs, std::vector<Spec> outputs,
                                       const CorrelationOptions& o) {
  if (inputs.size() != 3 || outputs.size() != 2 || outputs[0].shape != inputs[1].shape ||
      outputs[1].shape != inputs[2].shape)
    throw Error(MX_ERROR_VALUE, "[_backward_Correlation] expected three inputs and two gradients");
  check(inputs[1], inputs[2], inputs[0], o);
  return std::make_unique<CorrelationBackwardPlan>(std::move(inputs), std::move(outputs), o);
}

}  // namespace mx::cpu
