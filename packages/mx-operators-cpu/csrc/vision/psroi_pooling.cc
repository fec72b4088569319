// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "common/parallel.hpp"
#include "vision/region_plan.hpp"

namespace mx::cpu {
namespace {

const char* const kName = "_contrib_PSROIPooling";

struct Edge {
  int64_t begin, end;
};

// The image of a region, and the rows and columns of its bins.
struct Windows {
  int64_t image;
  const Edge *rows, *columns;
};

int64_t edge(double x, int64_t limit) {
  if (x != x) throw Error(MX_ERROR_VALUE, std::string("[") + kName + "] rois: a border that is no number");
  return static_cast<int64_t>(std::clamp(x, 0.0, static_cast<double>(limit)));
}

void edges(double start, double end, int64_t bins, int64_t limit, Edge* made) {
  const double extent = end - start < 0.1 ? 0.1 : end - start, step = extent / static_cast<double>(bins);
  for (int64_t i = 0; i < bins; ++i)
    made[i] = {edge(std::floor(start + static_cast<double>(i) * step), limit),
               edge(std::ceil(start + static_cast<double>(i + 1) * step), limit)};
}

class PsroiPlan : public RegionPlan {
 public:
  PsroiPlan(std::vector<Spec> inputs, std::vector<Spec> outputs, const Spec& data, const Spec& result,
                const RegionOptions& region, int64_t groups)
      : RegionPlan(inputs, outputs, kName, data, result, region), groups_(groups) {}

 protected:
  int64_t edges_of_region() const { return region_.height + region_.width; }

  // `made`: memory for as many edges.
  template <class T>
  Windows windows(const T* at, Edge* made) const {
    const int64_t image = image_of(static_cast<double>(at[0]));
    double begin[2], end[2];
    for (int k = 0; k < 2; ++k) {
      begin[k] = rounded(static_cast<double>(at[1 + k])) * region_.scale;
      end[k] = (rounded(static_cast<double>(at[3 + k])) + 1) * region_.scale;
    }
    edges(begin[1], end[1], region_.height, height_, made);
    edges(begin[0], end[0], region_.width, width_, made + region_.height);
    return {image, made, made + region_.height};
  }

  // Calls visit(bin, first element of its map, row edge, column edge) for the bins with elements.
  template <class Visit>
  void each_bin(const Windows& region, int64_t channel, Visit&& visit) const {
    for (int64_t i = 0; i < region_.height; ++i)
      for (int64_t j = 0; j < region_.width; ++j) {
        const Edge row = region.rows[i], column = region.columns[j];
        if (row.end <= row.begin || column.end <= column.begin) continue;
        const int64_t group = i * groups_ / region_.height * groups_ + j * groups_ / region_.width;
        const int64_t map = (region.image * channels_ + channel * groups_ * groups_ + group) * height_ * width_;
        visit(i * region_.width + j, map, row, column);
      }
  }

  static double elements(Edge row, Edge column) {
    return static_cast<double>((row.end - row.begin) * (column.end - column.begin));
  }

  const int64_t groups_;
};

class PsroiPooling final : public PsroiPlan {
 public:
  PsroiPooling(std::vector<Spec> inputs, std::vector<Spec> outputs, const RegionOptions& region, int64_t groups)
      : PsroiPlan(inputs, outputs, inputs[0], outputs[0], region, groups),
        edges_(add_thread_scratch(static_cast<size_t>(edges_of_region()) * sizeof(Edge))) {}

 protected:
  void execute(const Call& call) const override { type_ == F64 ? compute<double>(call) : compute<float>(call); }

 private:
  template <class T>
  void compute(const Call& call) const {
    Result<T> output(*this, call, 0);
    if (output.data() == nullptr) return;
    const T *data = read<T>(call, 0), *given = read<T>(call, 1);
    parallel_for(regions_, 1, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t r = begin; r < end; ++r) {
        const Windows region = windows(given + 5 * r, edges_.of<Edge>(call, thread));
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

  const PerThread edges_;
};

class PsroiBackward final : public PsroiPlan {
 public:
  PsroiBackward(std::vector<Spec> inputs, std::vector<Spec> outputs, const RegionOptions& region, int64_t groups)
      : PsroiPlan(inputs, outputs, outputs[0], inputs[0], region, groups),
        windows_(add_scratch<Windows>(regions_)),
        edges_(add_scratch<Edge>(regions_ * edges_of_region())) {}

 protected:
  void execute(const Call& call) const override { type_ == F64 ? compute<double>(call) : compute<float>(call); }

 private:
  // Threads share channels: the order of additions is fixed.
  template <class T>
  void compute(const Call& call) const {
    Result<T> grad(*this, call, 0);
    if (grad.data() == nullptr) return;
    const T *head = read<T>(call, 0), *given = read<T>(call, 2);
    auto* regions = call.scratch<Windows>(windows_);
    for (int64_t r = 0; r < regions_; ++r)
      regions[r] = windows(given + 5 * r, call.scratch<Edge>(edges_) + r * edges_of_region());
    std::fill_n(grad.data(), outputs_[0].size(), T(0));
    parallel_for(made_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c)
        for (int64_t r = 0; r < regions_; ++r) {
          const T* share = head + (r * made_ + c) * bins();
          each_bin(regions[r], c, [&](int64_t bin, int64_t map, Edge row, Edge column) {
            const T part = share[bin] / static_cast<T>(elements(row, column));
            for (int64_t y = row.begin; y < row.end; ++y)
              for (int64_t x = column.begin; x < column.end; ++x) grad.data()[map + y * width_ + x] += part;
          });
        }
    });
    grad.deliver();
  }

  const Section windows_, edges_;  // of all regions
};

void check_psroi(const Spec& data, const Spec& regions, const Spec& result, const RegionOptions& o, int64_t groups) {
  fits(data.shape.size() == 4 && result.shape.size() == 4 && o.height > 0 && o.width > 0 && groups > 0 &&
           regions.size() == result.shape[0] * 5 && result.shape[2] == o.height && result.shape[3] == o.width &&
           data.shape[1] == result.shape[1] * groups * groups,
       kName);
}

}  // namespace

PlanPtr make_psroi_pooling_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const RegionOptions& region,
                                    int64_t groups) {
  fits(inputs.size() == 2 && outputs.size() == 1, kName);
  check_psroi(inputs[0], inputs[1], outputs[0], region, groups);
  return std::make_unique<PsroiPooling>(std::move(inputs), std::move(outputs), region, groups);
}

PlanPtr make_psroi_pooling_backward_plan(std::vector<Spec> inputs, std::vector<Spec> outputs,
                                             const RegionOptions& region, int64_t groups) {
  fits(inputs.size() == 3 && outputs.size() == 1, kName);
  check_psroi(outputs[0], inputs[2], inputs[0], region, groups);
  return std::make_unique<PsroiBackward>(std::move(inputs), std::move(outputs), region, groups);
}

}  // namespace mx::cpu
