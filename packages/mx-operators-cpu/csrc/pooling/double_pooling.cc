// SPDX-License-Identifier: Apache-2.0
//
// Maxima, means and sums over windows in float64, a line of results at a time: neighbours along the width, or
// neighbouring channels where those are last.
#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include "common/clones.hpp"
#include "common/float_types.hpp"
#include "pooling/pooling_loops.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kLine = 64;    // results of a line at most
constexpr int64_t kSpan = 512;   // elements along the width that are folded at once
constexpr int64_t kRows = 16;    // of results at most that are folded together, where a line has one piece
constexpr int64_t kFolded = 2048;  // elements of such rows, in a first-level cache
constexpr int64_t kFew = 4;      // results of a line: below, each is folded on its own
constexpr int64_t kGrain = 4096;  // elements of slabs that a thread takes at once

// What becomes of a result and one more element.  A maximum passes over NaN.

struct Largest {
  static constexpr double start = std::numeric_limits<double>::lowest();
  static MX_INLINE double of(double best, double x) { return x > best ? x : best; }
};

struct Total {
  static constexpr double start = 0;
  static MX_INLINE double of(double sum, double x) { return sum + x; }
};

// Elements of windows, for neighbouring results or channels.
struct Taps {
  int64_t planes, rows, columns;
  int64_t plane_step, row_step, column_step;
};

// folded[i], or the start, folded with x[0][i] to x[Count - 1][i].
template <class Op, int Count>
MX_INLINE void fold_lines(const double* const* x, bool first, double* __restrict folded, int64_t n) {
  const auto fold = [=](const auto& start) MX_INLINE_LAMBDA {
    const double* lines[Count];
    for (int k = 0; k < Count; ++k) lines[k] = x[k];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      double value = start(i);
      for (int k = 0; k < Count; ++k) value = Op::of(value, lines[k][i]);
      folded[i] = value;
    }
  };
  if (first) fold([](int64_t) MX_INLINE_LAMBDA { return Op::start; });
  else fold([=](int64_t i) MX_INLINE_LAMBDA { return folded[i]; });
}

// n neighbours, each folded with those at the same place of all taps: some taps at a time, between which they stay in
// registers.
template <class Op>
MX_INLINE void fold_taps(const double* __restrict from, const Taps& taps, double* __restrict folded, int64_t n) {
  constexpr int kAtOnce = 3;
  const double* held[kAtOnce];
  int count = 0;
  bool first = true;
  for (int64_t p = 0; p < taps.planes; ++p)
    for (int64_t r = 0; r < taps.rows; ++r)
      for (int64_t c = 0; c < taps.columns; ++c) {
        held[count++] = from + p * taps.plane_step + r * taps.row_step + c * taps.column_step;
        if (count < kAtOnce) continue;
        fold_lines<Op, kAtOnce>(held, first, folded, n);
        count = 0, first = false;
      }
  if (count == 2) fold_lines<Op, 2>(held, first, folded, n);
  else if (count == 1) fold_lines<Op, 1>(held, first, folded, n);
  else if (first) std::fill_n(folded, n, Op::start);
}

// result[i] = the fold of `kernel` elements from x[i * stride] on.
template <class Op>
MX_INLINE void fold_neighbours(const double* __restrict x, int64_t kernel, int64_t stride, double* __restrict result,
                               int64_t n) {
  const auto fold = [=](auto step, auto taps) MX_INLINE_LAMBDA {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      double value = Op::start;
      for (int64_t k = 0; k < taps; ++k) value = Op::of(value, x[i * step + k]);
      result[i] = value;
    }
  };
  const auto of_stride = [=](auto step) MX_INLINE_LAMBDA {
    if (kernel == 2) return fold(step, std::integral_constant<int64_t, 2>{});
    if (kernel == 3) return fold(step, std::integral_constant<int64_t, 3>{});
    for (int64_t i = 0; i < n; ++i) result[i] = Op::start;
    for (int64_t k = 0; k < kernel; ++k) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) result[i] = Op::of(result[i], x[i * step + k]);
    }
  };
  if (stride == 1) return of_stride(std::integral_constant<int64_t, 1>{});
  if (stride == 2) return of_stride(std::integral_constant<int64_t, 2>{});
  of_stride(stride);
}

// A row of results: the elements of its windows along depth and height.
struct RowTaps {
  const double* from;
  Taps taps;
};

// Rows along depth and height, `span` elements each, of which those from `begin` to `end` are there.
template <class Op>
MX_INLINE void fold_rows(const RowTaps* rows, int64_t n_rows, double* folded, int64_t span, int64_t begin, int64_t end) {
  for (const RowTaps* row = rows; row < rows + n_rows; ++row, folded += span) {
    for (int64_t i = 0; i < begin; ++i) folded[i] = Op::start;
    for (int64_t i = end; i < span; ++i) folded[i] = Op::start;
    if (begin < end) fold_taps<Op>(row->from, row->taps, folded + begin, end - begin);
  }
}

// Those rows along the width, n results each.
template <class Op>
MX_INLINE void fold_widths(const double* folded, int64_t n_rows, int64_t span, int64_t kernel, int64_t stride,
                           double* result, int64_t n) {
  for (int64_t r = 0; r < n_rows; ++r) fold_neighbours<Op>(folded + r * span, kernel, stride, result + r * n, n);
}

MX_CLONES(double, largest_of, (const double* x, int64_t n, double best), (x, n, best)) {
#pragma omp simd reduction(max : best)
  for (int64_t i = 0; i < n; ++i) best = Largest::of(best, x[i]);
  return best;
}

// Four quarters side by side: an addition waits for the one before it.
MX_CLONES(double, total_of, (const double* x, int64_t n, double sum), (x, n, sum)) {
  const int64_t quarter = n / 4;
  const double *second = x + quarter, *third = second + quarter, *fourth = third + quarter;
  double a = 0, b = 0, c = 0, d = 0;
#pragma omp simd reduction(+ : a, b, c, d)
  for (int64_t i = 0; i < quarter; ++i) {
    a += x[i];
    b += second[i];
    c += third[i];
    d += fourth[i];
  }
  for (int64_t i = 4 * quarter; i < n; ++i) sum += x[i];
  return sum + ((a + b) + (c + d));
}

template <class Op>
double fold_run(const double* x, int64_t n, double folded = Op::start) {
  return std::is_same_v<Op, Largest> ? largest_of(x, n, folded) : total_of(x, n, folded);
}

// What gradients do to n elements of a stride.

struct AddShare {
  double* __restrict grad;
  const double* __restrict share;
  MX_INLINE void operator()(int64_t i, int64_t at) const { grad[at] += share[i]; }
};

// What is left of the share goes to where x is the result, which takes it.
struct AddToFirst {
  double* __restrict grad;
  const double *__restrict x, *__restrict result;
  double* __restrict share;
  MX_INLINE void operator()(int64_t i, int64_t at) const {
    const bool found = x[at] == result[i];
    grad[at] += found ? share[i] : 0.0;
    share[i] = found ? 0.0 : share[i];
  }
};

template <class Body>
MX_INLINE void neighbours(const Body& body, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) body(i, i);
}

// Of the baseline: gathers and scatters are slower than single elements.
template <class Body>
void strided(const Body& body, int64_t stride, int64_t n) {
  if (stride == 1) return best_clone<neighbours<Body>>(body, n);
  for (int64_t i = 0; i < n; ++i) body(i, i * stride);
}

// y = x / (count * counts), or y += that.
MX_CLONES(void, put_means, (const double* x, double count, const double* counts, int64_t step, double* y, int64_t n,
                            bool add), (x, count, counts, step, y, n, add)) {
  const auto put = [=](auto each) MX_INLINE_LAMBDA {
    if (add)
      for (int64_t i = 0; i < n; ++i) y[i] += x[i] / (count * counts[i * each]);
    else
      for (int64_t i = 0; i < n; ++i) y[i] = x[i] / (count * counts[i * each]);
  };
  if (step == 0) put(std::integral_constant<int64_t, 0>{});
  else put(std::integral_constant<int64_t, 1>{});
}

// The gradient of n elements that have one share; what `clears` was not there before.
MX_CLONES(void, add_to_all, (double* grad, double share, int64_t n, bool clears), (grad, share, n, clears)) {
  if (clears) return static_cast<void>(std::fill_n(grad, n, share));
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) grad[i] += share;
}

struct Axis {
  int64_t in, out, kernel, stride, pad;

  bool is_one_window() const { return out == 1 && kernel == in && pad == 0; }

  int64_t start(int64_t o) const { return o * stride - pad; }
  int64_t begin(int64_t o) const { return std::max<int64_t>(start(o), 0); }
  int64_t end(int64_t o) const { return std::max(std::min(start(o) + kernel, in), begin(o)); }
  // What a mean divides by; sums of nothing are 0 whatever they are divided by.
  double counted(int64_t o, bool with_pad) const {
    const int64_t n = with_pad ? std::min(start(o) + kernel, in + pad) - start(o) : end(o) - begin(o);
    return static_cast<double>(std::max<int64_t>(n, 1));
  }
};

// Lines are computed for one channel, or for some where channels are last: a slab of the tensors.
class LinePlan : public Plan {
 protected:
  LinePlan(const Signature& signature, const PoolOptions& o, const Cost& cost, const Spec& data, const Spec& out)
      : Plan(signature, cost), type_(o.type), with_pad_(o.count_include_pad), last_(o.channels_last) {
    const Dims &x = data.shape, &y = out.shape;
    const size_t spatial = o.window.kernel.size(), before = last_ ? 1 : 2, channel = last_ ? spatial + 1 : 1;
    if (spatial < 1 || spatial > 3 || x.size() != spatial + 2 || y.size() != x.size() || x[0] != y[0] ||
        x[channel] != y[channel] || o.type == PoolType::lp)
      throw Unsupported{};
    for (size_t i = 0; i < spatial; ++i) {
      const Axis axis = {x[before + i], y[before + i], o.window.kernel[i], o.window.stride[i], o.window.pad[i]};
      for (const int64_t n : {axis.in, axis.out, axis.kernel, axis.stride, axis.pad})
        if (n > std::numeric_limits<int32_t>::max()) throw Unsupported{};
      axes_[3 - spatial + i] = axis;
    }
    for (int i = 1; i >= 0 && axes_[2].is_one_window(); --i) put_before_width(axes_[i]);
    for (int64_t w = 0; w < axes_[2].out; ++w) counts_.push_back(axes_[2].counted(w, with_pad_));
    batch_ = x[0], channels_ = x[channel];
    narrow_ = !last_ && axes_[2].out < kFew;
    if (!last_ && !narrow_) longest_ = std::clamp<int64_t>((kSpan - axes_[2].kernel) / axes_[2].stride + 1, 1, kLine);
    in_ = axes_[0].in * axes_[1].in * axes_[2].in;
    out_ = axes_[0].out * axes_[1].out * axes_[2].out;
  }

  // A line of results: where it begins, how many there are, and what each counts.
  struct Line {
    int64_t d, h, w, n;
    int64_t at;
  };
  struct Slab {
    int64_t in, out, width;  // where it begins in the tensors; its channels
  };

  template <class Body>
  void for_slabs(const Body& body) const {
    const int64_t blocks = last_ ? (channels_ + kLine - 1) / kLine : channels_;
    const int64_t grain = std::max<int64_t>(kGrain / std::max<int64_t>(in_ * (last_ ? kLine : 1), 1), 1);
    parallel_for(batch_ * blocks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t slab = begin; slab < end; ++slab) {
        const int64_t image = slab / blocks, first = slab % blocks * (last_ ? kLine : 1);
        const int64_t step = last_ ? 1 : in_, out_step = last_ ? 1 : out_;
        body(Slab{image * channels_ * in_ + first * step, image * channels_ * out_ + first * out_step,
                  last_ ? std::min(kLine, channels_ - first) : 1});
      }
    });
  }

  template <class Body>
  void for_lines(const Slab& slab, const Body& body) const {
    const int64_t step = last_ ? channels_ : 1;
    for (int64_t d = 0; d < axes_[0].out; ++d)
      for (int64_t h = 0; h < axes_[1].out; ++h)
        for (int64_t w = 0; w < axes_[2].out; w += longest_)
          body(Line{d, h, w, last_ ? slab.width : std::min(longest_, axes_[2].out - w),
                    slab.out + ((d * axes_[1].out + h) * axes_[2].out + w) * step});
  }

  // Calls body(first result, n, place of the first one's element, stride) for each element of the windows.
  template <class Body>
  void for_taps(const Slab& slab, const Line& line, const Body& body) const {
    const Axis& width = axes_[2];
    for (int64_t d = axes_[0].begin(line.d); d < axes_[0].end(line.d); ++d)
      for (int64_t h = axes_[1].begin(line.h); h < axes_[1].end(line.h); ++h) {
        const int64_t row = (d * axes_[1].in + h) * width.in;
        if (last_) {
          for (int64_t w = width.begin(line.w); w < width.end(line.w); ++w)
            body(0, line.n, slab.in + (row + w) * channels_, int64_t{1});
          continue;
        }
        for (int64_t k = 0; k < width.kernel; ++k) {
          const int64_t x = width.start(line.w) + k, s = width.stride;
          if (x >= width.in) break;
          int64_t begin = 0, end = line.n;
          if (x < 0) begin = std::min((-x + s - 1) / s, end);
          if (x + (end - 1) * s >= width.in) end = std::max((width.in - x + s - 1) / s, begin);
          if (begin < end) body(begin, end - begin, slab.in + row + x + begin * s, s);
        }
      }
  }

  // Calls body(place, n) for each row of elements of a single result's window.
  template <class Body>
  void for_rows(const Slab& slab, const Line& line, const Body& body) const {
    const int64_t first = axes_[2].begin(line.w), n = axes_[2].end(line.w) - first;
    for (int64_t d = axes_[0].begin(line.d); d < axes_[0].end(line.d); ++d)
      for (int64_t h = axes_[1].begin(line.h); h < axes_[1].end(line.h); ++h)
        body(slab.in + (d * axes_[1].in + h) * axes_[2].in + first, n);
  }

  // y = x / what each result of a line counts, or y += that.
  void put_means_of(const Line& line, const double* x, double* y, bool add) const {
    const double rows = axes_[0].counted(line.d, with_pad_) * axes_[1].counted(line.h, with_pad_);
    put_means(x, rows, counts_.data() + line.w, last_ ? 0 : 1, y, line.n, add);
  }

  // Whether a channel has one result, of all its elements.
  bool is_of_all() const { return !last_ && in_ == axes_[2].in && axes_[2].is_one_window(); }

  const PoolType type_;
  const bool with_pad_, last_;
  bool narrow_ = false;  // few results lie side by side: windows are gone through one by one
  int64_t longest_ = 1;  // line, in positions along the width
  Axis axes_[3] = {{1, 1, 1, 1, 0}, {1, 1, 1, 1, 0}, {1, 1, 1, 1, 0}};  // depth, height, width
  std::vector<double> counts_;  // of each result along the width
  int64_t batch_ = 0, channels_ = 0, in_ = 0, out_ = 0;

 private:
  // Windows as wide as the image are elements side by side: one axis has the lengths of both.
  void put_before_width(Axis& axis) {
    const int64_t n = axes_[2].in;
    axes_[2] = {axis.in * n, axis.out, axis.kernel * n, axis.stride * n, axis.pad * n};
    axis = {1, 1, 1, 1, 0};
  }
};

class DoublePooling final : public LinePlan {
 public:
  DoublePooling(const Signature& s, const PoolOptions& o, const Cost& cost)
      : LinePlan(counted(s, 1, 1), o, cost, s.inputs[0], s.outputs[0]) {}

 private:
  void execute(const Call& call) const override {
    if (!call.wanted(0)) return;
    const bool largest = type_ == PoolType::max, add = call.adds(0);
    const double* x = call.input<double>(0);
    double* y = call.output<double>(0);
    for_slabs([&](const Slab& slab) {
      if (in_one_piece()) return largest ? fold_slab<Largest>(slab, x, y, add) : fold_slab<Total>(slab, x, y, add);
      for_lines(slab, [&](const Line& line) {
        double result[kLine];
        largest ? fold<Largest>(slab, line, x, result) : fold<Total>(slab, line, x, result);
        put(line, result, y, add);
      });
    });
  }

  void put(const Line& line, const double* result, double* y, bool add) const {
    double* to = y + line.at;
    if (type_ == PoolType::avg) return put_means_of(line, result, to, add);
    for (int64_t i = 0; i < line.n; ++i) to[i] = add ? to[i] + result[i] : result[i];
  }

  bool in_one_piece() const { return !last_ && !narrow_ && axes_[2].out <= longest_; }

  // Some rows of results at a time, each stage for all of them: what one stores is in memory when the next reads it.
  template <class Op>
  void fold_slab(const Slab& slab, const double* x, double* y, bool add) const {
    const Axis &depth = axes_[0], &height = axes_[1], &width = axes_[2];
    // What is there is folded to the end of a row: whole vectors more often.
    const int64_t n = width.out, used = (n - 1) * width.stride + width.kernel, plane = height.in * width.in;
    const int64_t span = std::clamp(width.in + width.pad, used, std::min(used + 4, kSpan));
    const int64_t begin = std::clamp<int64_t>(width.pad, 0, span), end = std::clamp(width.in + width.pad, begin, span);
    alignas(64) double folded[kFolded], results[kRows * kLine];
    RowTaps rows[kRows];
    const bool plain = type_ != PoolType::avg && !add;
    const int64_t all = depth.out * height.out, most = std::min(kRows, kFolded / span);
    for (int64_t first = 0; first < all; first += most) {
      const int64_t count = std::min(most, all - first);
      for (int64_t r = 0; r < count; ++r) {
        const int64_t od = (first + r) / height.out, oh = (first + r) % height.out;
        const int64_t d = depth.begin(od), h = height.begin(oh);
        rows[r] = {x + slab.in + d * plane + h * width.in + begin - width.pad,
                   {depth.end(od) - d, height.end(oh) - h, 1, plane, width.in, 1}};
      }
      double* const result = plain ? y + slab.out + first * n : results;
      best_clone<fold_rows<Op>>(rows, count, folded, span, begin, end);
      best_clone<fold_widths<Op>>(folded, count, span, width.kernel, width.stride, result, n);
      for (int64_t r = 0; r < count && !plain; ++r)
        put(Line{(first + r) / height.out, (first + r) % height.out, 0, n, slab.out + (first + r) * n}, result + r * n, y,
            add);
    }
  }

  // Along depth and height first, then along the width.
  template <class Op>
  void fold(const Slab& slab, const Line& line, const double* x, double* result) const {
    const Axis &depth = axes_[0], &height = axes_[1], &width = axes_[2];
    const int64_t d = depth.begin(line.d), h = height.begin(line.h), row = width.in * (last_ ? channels_ : 1);
    Taps taps = {depth.end(line.d) - d, height.end(line.h) - h, 1, height.in * row, row, channels_};
    const double* from = x + slab.in + (d * height.in + h) * row;
    if (last_) {
      const int64_t w = width.begin(line.w);
      taps.columns = width.end(line.w) - w;
      return best_clone<fold_taps<Op>>(from + w * channels_, taps, result, line.n);
    }
    if (line.n < kFew && taps.planes == 1 && taps.rows == 1) {
      for (int64_t i = 0; i < line.n; ++i)
        result[i] = fold_run<Op>(from + width.begin(line.w + i), width.end(line.w + i) - width.begin(line.w + i));
      return;
    }
    const int64_t start = width.start(line.w), span = (line.n - 1) * width.stride + width.kernel;
    if (line.n < kFew) std::fill_n(result, line.n, Op::start);
    for (int64_t done = 0; done < span; done += kSpan) {  // once, unless there is one result
      double folded[kSpan];
      const int64_t n = std::min(kSpan, span - done), at = start + done;
      const int64_t begin = std::clamp<int64_t>(-at, 0, n), end = std::clamp(width.in - at, begin, n);
      std::fill(folded, folded + begin, Op::start);
      std::fill(folded + end, folded + n, Op::start);
      if (begin < end) best_clone<fold_taps<Op>>(from + at + begin, taps, folded + begin, end - begin);
      if (line.n >= kFew) {
        best_clone<fold_neighbours<Op>>(folded, width.kernel, width.stride, result, line.n);
        continue;
      }
      for (int64_t i = 0; i < line.n; ++i) {
        const double* own = folded + i * width.stride;
        const int64_t some = std::min(width.kernel, n - i * width.stride);
        result[i] = fold_run<Op>(own, some, result[i]);
      }
    }
  }
};

class DoublePoolingBackward final : public LinePlan {
 public:
  DoublePoolingBackward(const Signature& s, const PoolOptions& o, const Cost& cost)
      : LinePlan(counted(s, 3, 1), o, cost, s.inputs[1], s.inputs[0]) {
    require_sizes(s.inputs, {s.inputs[0].size(), s.inputs[1].size(), s.inputs[0].size()});
    require_sizes(s.outputs, {s.inputs[1].size()});
  }

 private:
  void execute(const Call& call) const override {
    if (!call.wanted(0)) return;
    const double *heads = call.input<double>(0), *x = call.input<double>(1), *y = call.input<double>(2);
    double* grad = call.output<double>(0);
    for_slabs([&](const Slab& slab) {
      if (is_of_all() && type_ != PoolType::max) {
        const Line line{0, 0, 0, 1, slab.out};
        double share = heads[slab.out];
        if (type_ == PoolType::avg) put_means_of(line, heads + slab.out, &share, false);
        return add_to_all(grad + slab.in, share, in_, !call.adds(0));
      }
      if (!call.adds(0)) clear(grad, slab);
      for_lines(slab, [&](const Line& line) {
        double share[kLine];
        if (type_ == PoolType::avg) put_means_of(line, heads + line.at, share, false);
        else std::copy_n(heads + line.at, line.n, share);
        if (narrow_) return add_rows(slab, line, share, x, y, grad);
        for_taps(slab, line, [&](int64_t first, int64_t n, int64_t at, int64_t stride) {
          if (type_ == PoolType::max)
            strided(AddToFirst{grad + at, x + at, y + line.at + first, share + first}, stride, n);
          else
            strided(AddShare{grad + at, share + first}, stride, n);
        });
      });
    });
  }

  void add_rows(const Slab& slab, const Line& line, double* share, const double* x, const double* y,
                double* grad) const {
    for_rows(slab, line, [&](int64_t at, int64_t n) {
      if (type_ != PoolType::max) {
        add_to_all(grad + at, *share, n, false);
      } else {
        for (int64_t i = 0; i < n && *share != 0; ++i) AddToFirst{grad + at + i, x + at + i, y + line.at, share}(0, 0);
      }
    });
  }

  void clear(double* grad, const Slab& slab) const {
    if (!last_) return static_cast<void>(std::fill_n(grad + slab.in, in_, 0.0));
    for (int64_t i = 0; i < in_; ++i) std::fill_n(grad + slab.in + i * channels_, slab.width, 0.0);
  }
};

}  // namespace

PlanPtr double_pooling(const Signature& s, const PoolOptions& options, const Cost& cost) {
  require_double(s);
  return std::make_unique<DoublePooling>(s, options, cost);
}

PlanPtr double_pooling_backward(const Signature& s, const PoolOptions& options, const Cost& cost) {
  require_double(s);
  return std::make_unique<DoublePoolingBackward>(s, options, cost);
}

}  // namespace mx::cpu
