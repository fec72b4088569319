// SPDX-License-Identifier: Apache-2.0
//
// BatchNorm on memory whose channels are last: rows are summed in parts, which do not depend on the number of
// threads.
#include "norm/batch_norm.hpp"
#include "norm/channel_rows.hpp"
#include "norm/channel_loops.hpp"
#include "common/float_types.hpp"
#include "common/scratch.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kPartRows = 128;  // at least
constexpr int64_t kMostParts = 32;

// Two sums per channel and part.
class Sums {
 public:
  Sums(Sections& sections, int64_t parts, int64_t channels)
      : channels_(channels), values_(sections.add<double>(2 * parts * channels)) {}

  struct Part {
    double *first, *second;
  };
  Part of(void* scratch, int64_t part) const {
    double* first = reinterpret_cast<double*>(static_cast<char*>(scratch) + values_) + 2 * part * channels_;
    return {first, first + channels_};
  }

 private:
  int64_t channels_;
  size_t values_;
};

// `count` vectors of floats, one per channel, after the sums.
class Vectors {
 public:
  Vectors(Sections& sections, int64_t count, int64_t channels)
      : channels_(channels), offset_(sections.add<float>(count * channels)) {}
  float* of(void* scratch, int64_t i) const {
    return reinterpret_cast<float*>(static_cast<char*>(scratch) + offset_) + i * channels_;
  }

 private:
  int64_t channels_;
  size_t offset_;
};

// What both directions have in common.
class RowsPlan : public Plan {
 protected:
  RowsPlan(const Signature& s, const BatchNormOptions& o, const Spec& data, int64_t vectors)
      : Plan(s, bandwidth_cost(s)), o_(o), v_(data.shape, o.axis), rows_(v_.outer), channels_(v_.length),
        parts_(std::clamp<int64_t>(rows_ / kPartRows, 1, kMostParts)), sums_(sections_, parts_, channels_),
        vectors_(sections_, vectors, channels_) {
    add_scratch(sections_.bytes());
  }

  // The first row of a part.
  int64_t row(int64_t part) const { return rows_ * part / parts_; }

  // Runs body(first row, rows, sums) on the parts of the rows.
  template <class Body>
  void sum(void* scratch, const Body& body) const {
    parallel_for(parts_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) body(row(p), row(p + 1) - row(p), sums_.of(scratch, p));
    });
  }

  const BatchNormOptions o_;
  const AxisView v_;
  const int64_t rows_, channels_;
  const int64_t parts_;
  Sections sections_;
  const Sums sums_;
  const Vectors vectors_;
};

template <class T>
class RowsBatchNorm final : public RowsPlan {
 public:
  RowsBatchNorm(const Signature& s, const BatchNormOptions& o) : RowsPlan(s, o, s.inputs[0], 2) {
    require_forward<T>(s, channels_);
  }

 private:
  void execute(const Call& call) const override {
    set_step(call, signature_, 0);
    void* scratch = call.context.scratch[0];
    float *mean = vectors_.of(scratch, 0), *scale = vectors_.of(scratch, 1);
    if (o_.use_batch_stats) {
      const Sums::Part total = moments(call, scratch);
      for (int64_t c = 0; c < channels_; ++c) {
        mean[c] = static_cast<float>(total.first[c]);
        const auto variance = static_cast<float>(total.second[c] / static_cast<double>(rows_));
        scale[c] = finish_channel(o_, call, c, mean[c], variance);
      }
    } else {
      std::copy_n(call.input<float>(3), channels_, mean);
      for (int64_t c = 0; c < channels_; ++c) scale[c] = finish_channel(o_, call, c, mean[c], call.input<float>(4)[c]);
    }
    if (call.wanted(0)) normalize(call, mean, scale);
  }

  Sums::Part moments(const Call& call, void* scratch) const {
    sum(scratch, [&](int64_t first, int64_t n, const Sums::Part& part) {
      row_moments(call.input<T>(0) + first * channels_, n, channels_, part.first, part.second);
    });
    const Sums::Part total = sums_.of(scratch, 0);
    for (int64_t p = 1; p < parts_; ++p) {
      const Sums::Part more = sums_.of(scratch, p);
      const auto seen = static_cast<double>(row(p)), n = static_cast<double>(row(p + 1) - row(p));
      for (int64_t c = 0; c < channels_; ++c)
        join_moments(seen, n, more.first[c], more.second[c], total.first + c, total.second + c);
    }
    return total;
  }

  void normalize(const Call& call, const float* mean, const float* scale) const {
    const float* shift = call.input<float>(2);
    // What follows a training step's normalisation reads it at once.
    const bool streams = !o_.use_batch_stats && !call.adds(0) && 2 * signature_.outputs[0].bytes() > kCacheBytes;
    parallel_shares(rows_, [&](int64_t begin, int64_t end) {
      const T* x = call.input<T>(0) + begin * channels_;
      T* y = call.output<T>(0) + begin * channels_;
      if constexpr (std::is_same_v<T, float>) {
        if (streams) return normalize_past_caches(x, mean, scale, shift, y, {end - begin, channels_, channels_, 1});
      }
      normalize_rows(x, mean, scale, shift, y, end - begin, channels_, call.adds(0));
    });
  }
};

template <class T>
class RowsBatchNormBackward final : public RowsPlan {
 public:
  RowsBatchNormBackward(const Signature& s, const BatchNormOptions& o) : RowsPlan(s, o, s.inputs[1], 3) {
    require_backward<T>(s, channels_);
  }

 private:
  void execute(const Call& call) const override {
    void* scratch = call.context.scratch[0];
    const float* mean = call.input<float>(3);
    sum(scratch, [&](int64_t first, int64_t n, const Sums::Part& part) {
      const int64_t at = first * channels_;
      row_gradient_sums(call.input<T>(0) + at, call.input<T>(1) + at, mean, n, channels_, part.first, part.second);
    });
    float *a = vectors_.of(scratch, 0), *b = vectors_.of(scratch, 1), *c = vectors_.of(scratch, 2);
    for (int64_t i = 0; i < channels_; ++i) {
      double total = 0, moment = 0;
      for (int64_t p = 0; p < parts_; ++p) {
        const Sums::Part part = sums_.of(scratch, p);
        total += part.first[i];
        moment += part.second[i];
      }
      const Coefficients<float> k = finish_channel_gradient<float>(o_, call, i, static_cast<double>(rows_), total, moment);
      a[i] = k.a;
      b[i] = k.b;
      c[i] = k.c;
    }
    if (!call.wanted(0)) return;
    parallel_shares(rows_, [&](int64_t begin, int64_t end) {
      const int64_t at = begin * channels_;
      combine_rows(call.input<T>(0) + at, call.input<T>(1) + at, mean, a, b, c, call.output<T>(0) + at, end - begin,
                   channels_, call.adds(0));
    });
  }
};

}  // namespace

PlanPtr batch_norm_rows(const Signature& s, const BatchNormOptions& o) {
  return made_for<RowsBatchNorm>(s.inputs[0].dtype, s, o);
}

PlanPtr batch_norm_rows_backward(const Signature& s, const BatchNormOptions& o) {
  return made_for<RowsBatchNormBackward>(s.inputs[1].dtype, s, o);
}

}  // namespace mx::cpu
