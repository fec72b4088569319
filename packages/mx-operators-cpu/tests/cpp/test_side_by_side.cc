// SPDX-License-Identifier: Apache-2.0
//
// What is computed many at a time, without Python: pads, short rows, gamma tries, channels of regions.
// For the sanitizers, with sizes around those of vectors.
#include <cmath>

#include "any_request.hpp"
#include "indexing/pad.hpp"
#include "reduce/reduce.hpp"
#include "vision/regions.hpp"
#include "random/variates.hpp"

namespace {

void pads_of_every_width() {
  for (PadMode mode : {PadMode::kConstant, PadMode::kEdge, PadMode::kReflect})
    for (int64_t width : {4, 15, 16, 17, 70})
      for (int64_t around : {0, 1, 3}) {
        const Spec in({2, 3, 5, width}, MX_FLOAT32), out({2, 3, 5 + around, width + 2 * around}, MX_FLOAT32);
        const auto plan = shared(make_pad_plan({in}, {out}, {0, 0, around, around}, {0, 0, 0, around}, mode));
        std::vector<float> x = numbers<float>(in.size(), -1, 1), y(static_cast<size_t>(out.size()));
        for (uint8_t request : kRequests)
          CHECK(run(plan, {tensor(x, MX_FLOAT32)}, {tensor(y, MX_FLOAT32)}, 2, request) == MX_OK);
        CHECK(run(plan, {tensor(x, MX_FLOAT32)}, {tensor(y, MX_FLOAT32)}) == MX_OK);
        CHECK(y.back() == (around == 0               ? x.back()
                           : mode == PadMode::kEdge  ? x.back()
                           : mode == PadMode::kReflect ? x[x.size() - 1 - static_cast<size_t>(around)]
                                                       : 0.0f));
      }
}

void a_reflection_of_nothing_is_refused() {
  bool refused = false;
  try {
    make_pad_plan({Spec({3}, MX_FLOAT32)}, {Spec({9}, MX_FLOAT32)}, {3}, {3}, PadMode::kReflect);
  } catch (const mx::Error&) {
    refused = true;
  }
  CHECK(refused);
}

void short_rows_of_every_length() {
  for (int64_t n : {1, 7, 15, 16, 17, 31, 56, 64, 65, 300})
    for (ReduceOp op : {kSum, kProd, kMax, kMin, kNanSum, kNanProd, kSumAbs, kSumSquare}) {
      const int64_t rows = 261;
      std::vector<float> x = numbers<float>(rows * n, 0.5, 1.5), y(static_cast<size_t>(rows));
      ReduceOptions options{};
      options.op = op;
      options.reduced = {false, true};
      const auto plan = shared(
          make_reduce_plan({Spec({rows, n}, MX_FLOAT32)}, {Spec({rows}, MX_FLOAT32)}, options));
      CHECK(run(plan, {tensor(x, MX_FLOAT32)}, {tensor(y, MX_FLOAT32)}) == MX_OK);
      double want = 0;
      for (int64_t i = 0; i < n; ++i) want += x[static_cast<size_t>((rows - 1) * n + i)];
      if (op == kSum || op == kSumAbs) CHECK(std::fabs(y.back() - want) < 1e-4 * want);
    }
}

void gamma_numbers_in_every_number() {
  for (int64_t n : {1, 8, 511, 512, 513, 5000}) {
    VariateOptions options{};
    options.op = "_random_gamma";
    options.variate = Variate::kGamma;
    options.arrays = true;
    options.each = n;
    std::vector<float> shape = {0.5f, 1.0f, 40.0f}, scale = {1.0f, 2.0f, 0.5f}, out(static_cast<size_t>(3 * n));
    const Spec three({3}, MX_FLOAT32);
    const auto plan = shared(make_variate_plan({three, three}, {Spec({3, n}, MX_FLOAT32)}, options));
    CHECK(run(plan, {tensor(shape, MX_FLOAT32), tensor(scale, MX_FLOAT32)}, {tensor(out, MX_FLOAT32)}) == MX_OK);
    double sum = 0;
    for (int64_t i = 2 * n; i < 3 * n; ++i) sum += out[static_cast<size_t>(i)];
    for (float x : out) CHECK(x >= 0 && std::isfinite(x));
    if (n == 5000) CHECK(std::fabs(sum / static_cast<double>(n) - 20) < 0.5);
  }
}

void regions_of_many_channels() {
  for (int64_t channels : {1, 63, 64, 70, 130}) {
    const Spec data({1, channels, 9, 21}, MX_FLOAT32), rois({2, 5}, MX_FLOAT32), out({2, channels, 3, 2}, MX_FLOAT32);
    std::vector<float> x(static_cast<size_t>(data.size()), 2.0f), y(static_cast<size_t>(out.size()));
    std::vector<float> r = {0, 1, 1, 7, 6, 0, 3, 0, 20, 8};
    const auto plan = shared(make_roi_align_plan({data, rois}, {out}, {{3, 2, 1.0}, 2, false, false}));
    CHECK(run(plan, {tensor(x, MX_FLOAT32), tensor(r, MX_FLOAT32)}, {tensor(y, MX_FLOAT32)}) == MX_OK);
    for (float v : y) CHECK(std::fabs(v - 2) < 1e-5f);
  }
}

}  // namespace

int main() {
  pads_of_every_width();
  a_reflection_of_nothing_is_refused();
  short_rows_of_every_length();
  gamma_numbers_in_every_number();
  regions_of_many_channels();
  std::puts("ok");
  return 0;
}
