// SPDX-License-Identifier: Apache-2.0
#include "vision/proposal.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/parallel.hpp"
#include "common/upcast.hpp"

namespace mx::cpu {
namespace {

// Boxes of an image side by side, so that overlaps are vectors.
struct Boxes {
  Span<double> edge[4], area;
  Boxes(size_t n, Arena& arena) : area(arena.take<double>(n)) {
    for (auto& side : edge) side = arena.take<double>(n);
  }
};

// NaN stays.
double limited(double x, double high) {
  x = x < 0 ? 0 : x;
  return x > high ? high : x;
}

class ProposalPlan final : public TypedPlan<ProposalPlan> {
 public:
  ProposalPlan(std::vector<Spec> inputs, std::vector<Spec> outputs, ProposalOptions options)
      : TypedPlan(inputs, outputs, inputs[0].dtype, 64 * inputs[0].size()),
        o_(std::move(options)),
        count_(static_cast<int64_t>(o_.anchors.size())),
        height_(inputs[0].shape[2]),
        width_(inputs[0].shape[3]) {
    const auto n = static_cast<size_t>(all());
    image_ = add_thread_scratch(arena_bytes({n * sizeof(double), 4 * n * sizeof(double), n * sizeof(int64_t),
                                             n * sizeof(double), n * sizeof(double), n * sizeof(double),
                                             n * sizeof(double), n * sizeof(double), n, n * sizeof(size_t)}));
  }

  template <class T>
  void compute(const Call& call) const {
    Result<T> boxes(*this, call, 0), scores(*this, call, 1);
    if (boxes.data() == nullptr && scores.data() == nullptr) return;
    const T *given = read<T>(call, 0), *offsets = read<T>(call, 1), *info = read<T>(call, 2);
    parallel_for(inputs_[0].shape[0], 1, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t i = begin; i < end; ++i)
        propose(image_.arena(call, thread), i, given + (2 * i + 1) * all(), offsets + 4 * i * all(), info + 3 * i, boxes.data(), scores.data());
    });
    boxes.deliver();
    scores.deliver();
  }

 private:
  int64_t all() const { return count_ * height_ * width_; }

  // How many rows (columns) lie inside an image; from the end where that is below 0.
  int64_t inside(double extent, int64_t stride, int64_t size) const {
    const double positions = extent / static_cast<double>(stride);
    if (!std::isfinite(positions)) {
      throw Error(MX_ERROR_VALUE,
                  "[" + o_.name + "] im_info: expected finite extents, got " + std::to_string(extent));
    }
    const double whole = std::clamp(std::trunc(positions), -static_cast<double>(size), static_cast<double>(size));
    return whole < 0 ? size + static_cast<int64_t>(whole) : static_cast<int64_t>(whole);
  }

  template <class T>
  void propose(Arena arena, int64_t image, const T* scores, const T* offsets, const T* info, T* to, T* score_to) const {
    const auto n = static_cast<size_t>(all());
    const Span<T> score = arena.take<T>(n);
    const Span<double> corner = arena.take<double>(4 * n);
    place(scores, offsets, info, corner.data(), score.data());
    const Span<int64_t> order = arena.take<int64_t>(n);
    std::iota(order.begin(), order.end(), 0);
    const size_t most = o_.considered > 0 ? std::min(n, static_cast<size_t>(o_.considered)) : n;
    const auto better = [&](int64_t a, int64_t b) {
      const T x = score[static_cast<size_t>(a)], y = score[static_cast<size_t>(b)];
      if (x != x || y != y) return x == x ? true : y != y && a < b;  // NaN last
      return x != y ? x > y : a < b;
    };
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(most), order.end(), better);
    const Boxes boxes(most, arena);
    for (size_t i = 0; i < most; ++i) {
      const double* at = &corner[4 * static_cast<size_t>(order[i])];
      for (int k = 0; k < 4; ++k) boxes.edge[k][i] = at[k];
      boxes.area[i] = (at[2] - at[0] + 1) * (at[3] - at[1] + 1);
    }
    const FixedList<size_t> kept = suppress(boxes, std::min(most, static_cast<size_t>(o_.returned)), arena);
    for (int64_t i = 0; i < o_.returned; ++i) {
      const size_t chosen = kept[static_cast<size_t>(i) % kept.size()];
      const int64_t row = image * o_.returned + i;
      if (score_to != nullptr) score_to[row] = score[static_cast<size_t>(order[chosen])];
      if (to == nullptr) continue;
      to[5 * row] = static_cast<T>(image);
      for (int k = 0; k < 4; ++k) to[5 * row + 1 + k] = static_cast<T>(boxes.edge[k][chosen]);
    }
  }

  // Boxes and scores in the order of rows, columns, anchors.
  template <class T>
  void place(const T* scores, const T* offsets, const T* info, double* box, T* score) const {
    const int64_t area = height_ * width_, rows = inside(info[0], o_.stride, height_);
    const int64_t columns = inside(info[1], o_.stride, width_);
    const double high[4] = {static_cast<double>(info[1] - 1), static_cast<double>(info[0] - 1),
                            static_cast<double>(info[1] - 1), static_cast<double>(info[0] - 1)};
    const auto least = static_cast<double>(static_cast<T>(o_.least_size) * info[2]);
    for (int64_t position = 0; position < area; ++position) {
      const int64_t row = position / width_, column = position % width_;
      const double shift[2] = {static_cast<double>(column * o_.stride), static_cast<double>(row * o_.stride)};
      for (int64_t a = 0; a < count_; ++a, box += 4, ++score) {
        const auto& anchor = o_.anchors[static_cast<size_t>(a)];
        const T* moved = offsets + 4 * a * area + position;
        for (int k = 0; k < 2; ++k) {
          const double low = anchor[static_cast<size_t>(k)] + shift[k], up = anchor[static_cast<size_t>(k) + 2] + shift[k];
          if (o_.by_corners) {
            box[k] = low + static_cast<double>(moved[k * area]);
            box[k + 2] = up + static_cast<double>(moved[(k + 2) * area]);
          } else {
            const double side = up - low + 1;
            const double middle = low + (side - 1) / 2 + static_cast<double>(moved[k * area]) * side;
            const double half = (static_cast<double>(std::exp(moved[(k + 2) * area])) * side - 1) / 2;
            box[k] = middle - half;
            box[k + 2] = middle + half;
          }
        }
        for (int k = 0; k < 4; ++k) box[k] = limited(box[k], high[k]);
        const bool small = box[2] - box[0] + 1 < least || box[3] - box[1] + 1 < least;
        *score = small || row >= rows || column >= columns ? T(-1) : scores[a * area + position];
        if (small)
          for (int k = 0; k < 4; ++k) box[k] += (k < 2 ? -1 : 1) * (least / 2);
      }
    }
  }

  // The best boxes of which none overlaps a better one by more than the threshold.
  FixedList<size_t> suppress(const Boxes& boxes, size_t most, Arena& arena) const {
    const size_t n = boxes.area.size();
    const Span<uint8_t> gone = arena.filled<uint8_t>(n, 0);
    auto kept = arena.list<size_t>(most);
    const double *x0 = boxes.edge[0].data(), *y0 = boxes.edge[1].data(), *x1 = boxes.edge[2].data(),
                 *y1 = boxes.edge[3].data(), *area = boxes.area.data();
    for (size_t i = 0; i < n && kept.size() < most; ++i) {
      if (gone[i]) continue;
      kept.push_back(i);
      for (size_t j = i + 1; j < n; ++j) {
        const double width = std::min(x1[i], x1[j]) - std::max(x0[i], x0[j]) + 1;
        const double height = std::min(y1[i], y1[j]) - std::max(y0[i], y0[j]) + 1;
        const double common = std::max(width, 0.0) * std::max(height, 0.0);
        gone[j] |= static_cast<uint8_t>(common / (area[i] + area[j] - common) > o_.threshold);
      }
    }
    return kept;
  }

  const ProposalOptions o_;
  const int64_t count_, height_, width_;
  PerThread image_;
};

}  // namespace

PlanPtr make_proposal_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, ProposalOptions o) {
  fits(inputs.size() == 3 && outputs.size() == 2 && inputs[0].shape.size() == 4 && !o.anchors.empty() && o.returned > 0 &&
           o.stride > 0,
       o.name.c_str());
  const auto anchors = static_cast<int64_t>(o.anchors.size());
  const int64_t batch = inputs[0].shape[0];
  fits(inputs[0].shape[1] == 2 * anchors && inputs[0].shape[2] > 0 && inputs[0].shape[3] > 0 &&
           inputs[1].size() == 2 * inputs[0].size() && inputs[2].size() == 3 * batch &&
           outputs[0].size() == 5 * batch * o.returned && outputs[1].size() == batch * o.returned,
       o.name.c_str());
  return std::make_unique<ProposalPlan>(std::move(inputs), std::move(outputs), std::move(o));
}

}  // namespace mx::cpu
