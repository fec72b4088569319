// SPDX-License-Identifier: Apache-2.0
#include "matmul/double_product.hpp"

#include <algorithm>

#include "common/parallel.hpp"
#include "common/scratch.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kSharedElements = 1 << 14;  // packed by one thread, below it a team costs more

// Panels of the whole depth, one after the other.
class PackedFactor final : public Factor<double> {
 public:
  PackedFactor(const double* panels, int64_t panel_width, int64_t whole_depth)
      : panels_(panels), width_(panel_width), depth_(whole_depth) {}
  const double* packed(int64_t first, int64_t begin) const override {
    return panels_ + first * depth_ + begin * width_;
  }
  void pack(double* panel, int64_t width, int64_t first, int64_t, int64_t begin, int64_t depth) const override {
    std::copy_n(packed(first, begin), depth * width, panel);
  }

 private:
  const double* panels_;
  int64_t width_, depth_;
};

}  // namespace

DoubleProduct::DoubleProduct(const ProductShape& s, int)
    : threads_(team_size()), m_(s.m), k_(s.k), n_(s.n), a_strides_{s.a_strides.at(0), s.a_strides.at(1)},
      b_strides_{s.b_strides.at(0), s.b_strides.at(1)}, c_stride_(s.c_stride), add_(s.add),
      width_(loops().gemm64.columns), gemm_(s.m, s.n, s.k, 1, threads_) {}

size_t DoubleProduct::packed_bytes() const { return static_cast<size_t>(panels() * width_ * k_) * sizeof(double); }
size_t DoubleProduct::scratchpad_bytes() const { return static_cast<size_t>(threads_) * thread_bytes(); }

const void* DoubleProduct::Frame::pack(const void* b, void* space) {
  const DoubleProduct& p = product_;
  const StridedFactor<double> from(static_cast<const double*>(b), p.b_strides_[1], p.b_strides_[0]);
  const int64_t panel = p.width_ * p.k_;
  const int64_t grain = std::max<int64_t>(kSharedElements / std::max<int64_t>(panel, 1), 1);
  parallel_for(p.panels(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      from.pack(static_cast<double*>(space) + i * panel, p.width_, i * p.width_,
                std::min(p.width_, p.n_ - i * p.width_), 0, p.k_);
  });
  return space;
}

void DoubleProduct::Frame::run(const void* a, const void* packed, void* c) {
  const DoubleProduct& p = product_;
  const StridedFactor<double> left(static_cast<const double*>(a), p.a_strides_[0], p.a_strides_[1]);
  const PackedFactor right(static_cast<const double*>(packed), p.width_, p.k_);
  const Rows<double> to(static_cast<double*>(c), p.c_stride_, p.add_);
  const TeamScope team(std::min(p.threads_, team_size()));
  parallel_for(p.gemm_.tasks(), 1, [&](int64_t begin, int64_t end, int thread) {
    auto* scratch = reinterpret_cast<double*>(scratchpad_ + static_cast<size_t>(thread) * p.thread_bytes());
    for (int64_t task = begin; task < end; ++task) p.gemm_.run(task, left, right, to, scratch);
  });
}

}  // namespace mx::cpu
