// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "common/thread_pool.h"
#include "vision/regions.h"
#include "common/upcast.h"

namespace mx::vector {
namespace {

const char* const kName = "_contrib_PSROIPooling";

struct Edge {
  int64_t begin, end;
};

// The image of a region, and the rows and columns of its bins.
struct Windows {
  int64_t image;
  std::vector<Edge> rows, columns;
};

double rounded(double x) { return std::copysign(std::floor(std::fabs(x) + 0.5), x); }

int64_t edge(double x, int64_t limit) {
  if (x != x) throw Error(MX_ERROR_VALUE, std::string("[") + kName + "] rois: a border that is no number");
  return static_cast<int64_t>(std::clamp(x, 0.0, static_cast<double>(limit)));
}

std::vector<Edge> edges(double start, double end, int64_t bins, int64_t limit) {
  const double extent = end - start < 0.1 ? 0.1 : end - start, step = extent / static_cast<double>(bins);
  std::vector<Edge> made;
  for (int64_t i = 0; i < bins; ++i)
    made.push_back({edge(std::floor(start + static_cast<double>(i) * step), limit),
                    edge(std::ceil(start + static_cast<double>(i + 1) * step), limit)});
  return made;
}

class SensitivePlan : public WidePlan {
 public:
  SensitivePlan(std::vector<Spec> inputs, std::vector<Spec> outputs, const Spec& data, const Spec& result,
                const RegionOptions& region, int64_t groups)
      : WidePlan(inputs, outputs, data.dtype, 16 * result.elements),
        o_(region),
        groups_(groups),
        images_(data.shape[0]),
        channels_(data.shape[1]),
        height_(data.shape[2]),
        width_(data.shape[3]),
        regions_(result.shape[0]),
        made_(result.shape[1]) {}

 protected:
  template <class T>
  Windows windows(const T* at) const {
    const auto image = static_cast<double>(at[0]);
    if (!(image > -1 && image < static_cast<double>(images_)))
      throw Error(MX_ERROR_INDEX, std::string("[") + kName + "] rois: expected images 0 to " +
                                      std::to_string(images_ - 1) + ", got " + std::to_string(at[0]));
    double begin[2], end[2];
    for (int k = 0; k < 2; ++k) {
      begin[k] = rounded(static_cast<double>(at[1 + k])) * o_.scale;
      end[k] = (rounded(static_cast<double>(at[3 + k])) + 1) * o_.scale;
    }
    return {static_cast<int64_t>(image), edges(begin[1], end[1], o_.height, height_),
            edges(begin[0], end[0], o_.width, width_)};
  }

  // Calls visit(bin, first element of its map, row edge, column edge) for the bins with elements.
  template <class Visit>
  void each_bin(const Windows& region, int64_t channel, Visit&& visit) const {
    for (int64_t i = 0; i < o_.height; ++i)
      for (int64_t j = 0; j < o_.width; ++j) {
        const Edge row = region.rows[static_cast<size_t>(i)], column = region.columns[static_cast<size_t>(j)];
        if (row.end <= row.begin || column.end <= column.begin) continue;
        const int64_t group = i * groups_ / o_.height * groups_ + j * groups_ / o_.width;
        const int64_t map = (region.image * channels_ + channel * groups_ * groups_ + group) * height_ * width_;
        visit(i * o_.width + j, map, row, column);
      }
  }

  int64_t bins() const { return o_.height * o_.width; }
  static double elements(Edge row, Edge column) {
    return static_cast<double>((row.end - row.begin) * (column.end - column.begin));
  }

  const RegionOptions o_;
  const int64_t groups_, images_, channels_, height_, width_, regions_, made_;
};

class SensitivePooling final : public SensitivePlan {
 public:
  SensitivePooling(std::vector<Spec> inputs, std::vector<Spec> outputs, const RegionOptions& region, int64_t groups)
      : SensitivePlan(inputs, outputs, inputs[0], outputs[0], region, groups) {}

 protected:
  void execute(const Call& call) const override { type_ == F64 ? compute<double>(call) : compute<float>(call); }

 private:
  template <class T>
  void compute(const Call& call) const {
    Result<T> output(*this, call, 0);
    if (output.data() == nullptr) return;
    const T *data = read<T>(call, 0), *given = read<T>(call, 1);
    parallel(threads(call), regions_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const Windows region = windows(given + 5 * r);
        for (int64_t c = 0; c < made_; ++c) {
          T* to = output.data() + (r * made_ + c) * bins();
          std::fill_n(to, bins(), T(0));
          each_bin(region, c, [&](int64_t bin, int64_t map, Edge row, Edge column) {
            T sum = T(0);
            for (int64_t y = row.begin; y < row.end; ++y)
              for (int64_t x = column.begin; x < column.end; ++x) sum += data[map + y * width_ + x];
            to[bin] = sum / static_cast<T>(elements(row, column));
          });
        }
      }
    });
    output.deliver();
  }
};

class SensitiveBackward final : public SensitivePlan {
 public:
  SensitiveBackward(std::vector<Spec> inputs, std::vector<Spec> outputs, const RegionOptions& region, int64_t groups)
      : SensitivePlan(inputs, outputs, outputs[0], inputs[0], region, groups) {}

 protected:
  void execute(const Call& call) const override { type_ == F64 ? compute<double>(call) : compute<float>(call); }

 private:
  // Threads share channels: the order of additions is fixed.
  template <class T>
  void compute(const Call& call) const {
    Result<T> grad(*this, call, 0);
    if (grad.data() == nullptr) return;
    const T *head = read<T>(call, 0), *given = read<T>(call, 2);
    std::vector<Windows> regions;
    for (int64_t r = 0; r < regions_; ++r) regions.push_back(windows(given + 5 * r));
    std::fill_n(grad.data(), outputs_[0].elements, T(0));
    parallel(threads(call), made_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c)
        for (int64_t r = 0; r < regions_; ++r) {
          const T* share = head + (r * made_ + c) * bins();
          each_bin(regions[static_cast<size_t>(r)], c, [&](int64_t bin, int64_t map, Edge row, Edge column) {
            const T part = share[bin] / static_cast<T>(elements(row, column));
            for (int64_t y = row.begin; y < row.end; ++y)
              for (int64_t x = column.begin; x < column.end; ++x) grad.data()[map + y * width_ + x] += part;
          });
        }
    });
    grad.deliver();
  }
};

void check_sensitive(const Spec& data, const Spec& regions, const Spec& result, const RegionOptions& o, int64_t groups) {
  fits(data.shape.size() == 4 && result.shape.size() == 4 && o.height > 0 && o.width > 0 && groups > 0 &&
           regions.elements == result.shape[0] * 5 && result.shape[2] == o.height && result.shape[3] == o.width &&
           data.shape[1] == result.shape[1] * groups * groups,
       kName);
}

}  // namespace

PlanPtr make_sensitive_pooling_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const RegionOptions& region,
                                    int64_t groups) {
  fits(inputs.size() == 2 && outputs.size() == 1, kName);
  check_sensitive(inputs[0], inputs[1], outputs[0], region, groups);
  return std::make_unique<SensitivePooling>(std::move(inputs), std::move(outputs), region, groups);
}

PlanPtr make_sensitive_pooling_backward_plan(std::vector<Spec> inputs, std::vector<Spec> outputs,
                                             const RegionOptions& region, int64_t groups) {
  fits(inputs.size() == 3 && outputs.size() == 1, kName);
  check_sensitive(outputs[0], inputs[2], inputs[0], region, groups);
  return std::make_unique<SensitiveBackward>(std::move(inputs), std::move(outputs), region, groups);
}

}  // namespace mx::vector
