// SPDX-License-Identifier: Apache-2.0
//
// Every kind of pooling as loops over windows, one plane (batch, channel) at a time.
#include "pooling/pooling_loops.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

namespace mx::cpu {
namespace {

constexpr int64_t kRow = 256;  // elements along the width that are folded together

struct Axis {
  int64_t in, out, kernel, stride, pad;
};

// Part of a window that lies inside the data, per axis.
struct Range {
  int64_t begin, end;
  int64_t padded;  // extent counted when padding counts
  Range(const Axis& a, int64_t o) {
    const int64_t start = o * a.stride - a.pad, stop = std::min(start + a.kernel, a.in + a.pad);
    padded = stop - start;
    begin = std::max<int64_t>(start, 0);
    end = std::min(stop, a.in);
  }
  int64_t inside() const { return std::max<int64_t>(end - begin, 0); }
};

class WindowPlan : public Plan {
 protected:
  WindowPlan(const Signature& signature, const PoolOptions& options, const Cost& cost, const Dims& in, const Dims& out)
      : Plan(signature, cost), type_(options.type), include_pad_(options.count_include_pad), p_(options.p) {
    const size_t spatial = in.size() - 2;
    const Window& w = options.window;
    if (spatial < 1 || spatial > 3 || out.size() != in.size() || out[0] != in[0] || out[1] != in[1] ||
        w.kernel.size() != spatial || w.stride.size() != spatial || w.pad.size() != spatial)
      throw Unsupported{};
    planes_ = in[0] * in[1];
    for (size_t i = 0; i < spatial; ++i) {
      if (w.kernel[i] < 1 || w.stride[i] < 1 || w.pad[i] < 0) throw Unsupported{};
      axes_[3 - spatial + i] = {in[i + 2], out[i + 2], options.window.kernel[i], options.window.stride[i],
                                options.window.pad[i]};
    }
    in_plane_ = axes_[0].in * axes_[1].in * axes_[2].in;
    out_plane_ = axes_[0].out * axes_[1].out * axes_[2].out;
  }

  // What a mean divides by.
  int64_t divisor(const Range& rd, const Range& rh, const Range& rw) const {
    return std::max<int64_t>(include_pad_ ? rd.padded * rh.padded * rw.padded
                                          : rd.inside() * rh.inside() * rw.inside(), 1);
  }

  // body(output index, element count of the divisor, ranges) per window of a plane.
  template <class Body>
  void for_windows(const Body& body) const {
    int64_t at = 0;
    for (int64_t d = 0; d < axes_[0].out; ++d) {
      const Range rd(axes_[0], d);
      for (int64_t h = 0; h < axes_[1].out; ++h) {
        const Range rh(axes_[1], h);
        for (int64_t w = 0; w < axes_[2].out; ++w, ++at) {
          const Range rw(axes_[2], w);
          body(at, divisor(rd, rh, rw), rd, rh, rw);
        }
      }
    }
  }

  // body(input index), until it returns false.
  template <class Body>
  void for_elements(const Range& rd, const Range& rh, const Range& rw, const Body& body) const {
    for (int64_t d = rd.begin; d < rd.end; ++d) {
      for (int64_t h = rh.begin; h < rh.end; ++h) {
        const int64_t row = (d * axes_[1].in + h) * axes_[2].in;
        for (int64_t w = rw.begin; w < rw.end; ++w) {
          if (!body(row + w)) return;
        }
      }
    }
  }

  // value^p of an lp norm, and what undoes its sum.  Odd powers keep the sign.
  template <class T>
  T power(T value, int p) const {
    if (p < 3) return p == 0 ? T(1) : p == 1 ? value : value * value;
    const T magnitude = std::pow(std::fabs(value), static_cast<T>(p));
    return p % 2 ? std::copysign(magnitude, value) : magnitude;
  }
  template <class T>
  T root(T value) const {
    if (p_ < 3) return p_ == 1 ? value : std::sqrt(value);
    return std::copysign(std::pow(std::fabs(value), 1 / static_cast<T>(p_)), value);
  }

  const PoolType type_;
  const bool include_pad_;
  const int p_;
  int64_t planes_ = 0;
  Axis axes_[3] = {{1, 1, 1, 1, 0}, {1, 1, 1, 1, 0}, {1, 1, 1, 1, 0}};  // depth, height, width
  int64_t in_plane_ = 0, out_plane_ = 0;
};

// What sums of elements are taken in.
template <class T>
using SumOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
class PoolingLoops final : public WindowPlan {
  using Sum = SumOf<T>;

 public:
  PoolingLoops(const Signature& s, const PoolOptions& options, const Cost& cost)
      : WindowPlan(counted(s, 1, 1), options, cost, s.inputs[0].shape, s.outputs[0].shape) {}

 private:
  void execute(const Call& call) const override {
    if (!call.wanted(0)) return;
    parallel_shares(planes_, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        plane(call.input<T>(0) + p * in_plane_, call.output<T>(0) + p * out_plane_, call.adds(0));
      }
    });
  }

  void plane(const T* x, T* y, bool add) const {
    if (by_rows() && type_ == PoolType::max) return rows<Largest>(x, y, add);
    if (by_rows()) return rows<Total>(x, y, add);
    for_windows([&](int64_t at, int64_t count, const Range& rd, const Range& rh, const Range& rw) {
      Sum value = type_ == PoolType::max ? std::numeric_limits<Sum>::lowest() : Sum(0);
      for_elements(rd, rh, rw, [&](int64_t i) {
        const auto e = static_cast<Sum>(x[i]);
        value = type_ == PoolType::max ? (e > value ? e : value)
                                       : value + (type_ == PoolType::lp ? power(e, p_) : e);
        return true;
      });
      if (type_ == PoolType::avg) value /= static_cast<Sum>(count);
      if (type_ == PoolType::lp) value = root(value);
      y[at] = T(add ? static_cast<Sum>(y[at]) + value : value);
    });
  }

  struct Largest {
    static constexpr Sum start = std::numeric_limits<Sum>::lowest();
    static Sum of(Sum best, Sum x) { return x > best ? x : best; }
  };
  struct Total {
    static constexpr Sum start = 0;
    static Sum of(Sum sum, Sum x) { return sum + x; }
  };

  // Whether neighbouring windows see most of a row, which is short enough.
  bool by_rows() const {
    const Axis& width = axes_[2];
    return type_ != PoolType::lp && width.in <= kRow && width.stride <= width.kernel;
  }

  // A row of results at a time: along depth and height first, then along the width.
  template <class Fold>
  void rows(const T* x, T* y, bool add) const {
    const Axis& width = axes_[2];
    Sum folded[kRow];
    for (int64_t d = 0; d < axes_[0].out; ++d) {
      const Range rd(axes_[0], d);
      for (int64_t h = 0; h < axes_[1].out; ++h, y += width.out) {
        const Range rh(axes_[1], h);
        std::fill_n(folded, width.in, Fold::start);
        for (int64_t plane = rd.begin; plane < rd.end; ++plane) {
          const T* row = x + (plane * axes_[1].in + rh.begin) * width.in;
          for (int64_t line = rh.begin; line < rh.end; ++line, row += width.in)
            for (int64_t i = 0; i < width.in; ++i) folded[i] = Fold::of(folded[i], static_cast<Sum>(row[i]));
        }
        for (int64_t w = 0; w < width.out; ++w) {
          const Range rw(width, w);
          Sum value = Fold::start;
          for (int64_t i = rw.begin; i < rw.end; ++i) value = Fold::of(value, folded[i]);
          if (type_ == PoolType::avg) value /= static_cast<Sum>(divisor(rd, rh, rw));
          y[w] = T(add ? static_cast<Sum>(y[w]) + value : value);
        }
      }
    }
  }
};

template <class T>
class PoolingBackwardLoops final : public WindowPlan {
  using Sum = SumOf<T>;

 public:
  PoolingBackwardLoops(const Signature& s, const PoolOptions& options, const Cost& cost)
      : WindowPlan(counted(s, 3, 1), options, cost, s.inputs[1].shape, s.inputs[0].shape) {
    require_sizes(s.inputs, {planes_ * out_plane_, planes_ * in_plane_, planes_ * out_plane_});
    require_sizes(s.outputs, {planes_ * in_plane_});
    // One plane of gradient per thread, in the type of sums.
    add_scratch(static_cast<size_t>(threads()) * static_cast<size_t>(in_plane_) * sizeof(Sum));
  }

 private:
  void execute(const Call& call) const override {
    if (!call.wanted(0)) return;
    parallel_shares(planes_, [&](int64_t begin, int64_t end, int thread) {
      Sum* sums = static_cast<Sum*>(call.context.scratch[0]) + thread * in_plane_;
      for (int64_t p = begin; p < end; ++p) {
        std::fill_n(sums, in_plane_, Sum(0));
        plane(call.input<T>(0) + p * out_plane_, call.input<T>(1) + p * in_plane_,
              call.input<T>(2) + p * out_plane_, sums);
        T* grad = call.output<T>(0) + p * in_plane_;
        for (int64_t i = 0; i < in_plane_; ++i) grad[i] = T(call.adds(0) ? static_cast<Sum>(grad[i]) + sums[i] : sums[i]);
      }
    });
  }

  void plane(const T* out_grad, const T* x, const T* y, Sum* sums) const {
    for_windows([&](int64_t at, int64_t count, const Range& rd, const Range& rh, const Range& rw) {
      const auto g = static_cast<Sum>(out_grad[at]), result = static_cast<Sum>(y[at]);
      const Sum share = type_ == PoolType::avg ? g / static_cast<Sum>(count) : g;
      const bool flat = type_ == PoolType::lp && p_ > 1 && result == 0;  // no direction to go
      const Sum below = type_ == PoolType::lp && !flat ? power(result, p_ - 1) : Sum(1);
      for_elements(rd, rh, rw, [&](int64_t i) {
        const auto e = static_cast<Sum>(x[i]);
        if (type_ == PoolType::max) {
          if (e != result) return true;  // NaN, too, which a maximum passes over
          sums[i] += g;
          return false;  // the first maximum takes it all
        }
        if (!flat) sums[i] += type_ == PoolType::lp ? share * power(e, p_ - 1) / below : share;
        return true;
      });
    });
  }
};

// Of one type, which is one of three.
template <template <class> class Loops>
PlanPtr make(const Signature& signature, const PoolOptions& options, const Cost& cost) {
  const int32_t type = signature.inputs[0].dtype;
  const auto other = [type](const Spec& spec) { return spec.dtype != type; };
  if (std::any_of(signature.inputs.begin(), signature.inputs.end(), other) ||
      std::any_of(signature.outputs.begin(), signature.outputs.end(), other)) {
    throw Unsupported{};
  }
  if (type == MX_FLOAT64) return std::make_unique<Loops<double>>(signature, options, cost);
  if (type == MX_BFLOAT16) return std::make_unique<Loops<BFloat16>>(signature, options, cost);
  if (type != MX_FLOAT32) throw Unsupported{};
  return std::make_unique<Loops<float>>(signature, options, cost);
}

}  // namespace

PlanPtr pooling_loops(const Signature& signature, const PoolOptions& options, const Cost& cost) {
  return make<PoolingLoops>(signature, options, cost);
}

PlanPtr pooling_backward_loops(const Signature& signature, const PoolOptions& options, const Cost& cost) {
  if (signature.outputs[0].shape != signature.inputs[1].shape ||
      signature.inputs[2].shape != signature.inputs[0].shape) {
    throw Unsupported{};
  }
  return make<PoolingBackwardLoops>(signature, options, cost);
}

}  // namespace mx::cpu
