// SPDX-License-Identifier: Apache-2.0
//
// Sorting, resampling, transposing and composites without Python: for the sanitizers.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/composite.hpp"
#include "elementwise/expression_plan.hpp"
#include "indexing/strided_copy.hpp"
#include "sort/sort.hpp"
#include "plans.hpp"
#include "reduce/reduce.hpp"
#include "image/resample.hpp"

namespace {

std::vector<float> scattered(size_t n) {
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>((i * 7919) % 1009) - 500.0f;
  if (n > 3) x[3] = std::nanf("");
  return x;
}

void sorts_of_every_length() {
  for (int64_t n : {1, 2, 31, 511, 512, 700, 66'000})
    for (int64_t k : {int64_t{1}, std::min<int64_t>(n, 5), n}) {
      std::vector<float> x = scattered(static_cast<size_t>(2 * n)), values(static_cast<size_t>(2 * k));
      std::vector<int64_t> positions(static_cast<size_t>(2 * k));
      const auto plan = shared(make_order_plan({Spec({2, n}, 0)}, {Spec({2, k}, 0), Spec({2, k}, MX_INT64)},
                                               {0, 2, n, 1, k, true, {Ranked::kValues, Ranked::kPositions}}));
      CHECK(run(plan, {tensor(x, 0)}, {tensor(values, 0), tensor(positions, MX_INT64)}) == MX_OK);
      for (int64_t row = 0; row < 2; ++row) {
        const float* from = x.data() + row * n;
        std::vector<int64_t> want(static_cast<size_t>(n));
        std::iota(want.begin(), want.end(), 0);
        std::stable_sort(want.begin(), want.end(), [&](int64_t a, int64_t b) {
          return from[a] < from[b] || (std::isnan(from[b]) && !std::isnan(from[a]));
        });
        CHECK(std::equal(want.begin(), want.begin() + k, positions.begin() + row * k));
      }
    }
}

void columns_are_sorted_and_scattered_back() {
  std::vector<double> x(5 * 9 * 3), out(x.size()), back(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>((i * 37) % 101);
  const Spec spec({5, 9, 3}, MX_FLOAT64);
  const OrderOptions sorted{0, 5, 9, 3, 9, false, {Ranked::kValues}};
  OrderOptions scatter{1, 5, 9, 3, 9, false, {Ranked::kScatter}};
  CHECK(run(shared(make_order_plan({spec}, {spec}, sorted)), {tensor(x, MX_FLOAT64)}, {tensor(out, MX_FLOAT64)}) == MX_OK);
  CHECK(run(shared(make_order_plan({spec, spec}, {spec}, scatter)), {tensor(out, MX_FLOAT64), tensor(x, MX_FLOAT64)},
            {tensor(back, MX_FLOAT64)}) == MX_OK);
  CHECK(back == x);
}

void views_that_do_not_fit_are_refused() {
  const Spec spec({4}, 0);
  for (const OrderOptions& o : {OrderOptions{0, 1, 5, 1, 4, true, {Ranked::kValues}},
                                OrderOptions{0, 1, 4, 1, 5, true, {Ranked::kValues}},
                                OrderOptions{1, 1, 4, 1, 4, true, {Ranked::kValues}},
                                OrderOptions{0, 1, 4, 1, 4, true, {}}}) {
    bool refused = false;
    try {
      make_order_plan({spec}, {spec}, o);
    } catch (const mx::Error&) {
      refused = true;
    }
    CHECK(refused);
  }
}

void images_of_every_extent() {
  for (int64_t height : {1, 3, 8})
    for (int64_t width : {1, 5, 17}) {
      // Rows doubled, columns averaged.
      Mixing rows, columns;
      for (int64_t i = 0; i <= 2 * height; ++i) rows.begins.push_back(i);
      for (int64_t i = 0; i < 2 * height; ++i) {
        rows.columns.push_back(i / 2);
        rows.weights.push_back(1);
      }
      columns.begins = {0, width};
      for (int64_t i = 0; i < width; ++i) {
        columns.columns.push_back(i);
        columns.weights.push_back(1.0 / static_cast<double>(width));
      }
      std::vector<float> x(static_cast<size_t>(3 * height * width), 2.0f), y(static_cast<size_t>(6 * height), 1.0f);
      const auto plan = shared(make_resample_plan({Spec({3, height, width}, 0)}, {Spec({3, 2 * height, 1}, 0)}, height,
                                                  width, rows, columns));
      CHECK(run(plan, {tensor(x, 0)}, {tensor(y, 0)}) == MX_OK);
      for (float v : y) CHECK(std::fabs(v - 2.0f) < 1e-5f);
      CHECK(run(plan, {tensor(x, 0)}, {tensor(y, 0)}, 2, MX_REQ_ADD) == MX_OK);
      for (float v : y) CHECK(std::fabs(v - 4.0f) < 1e-5f);
      rows.columns[0] = height;
      bool refused = false;
      try {
        make_resample_plan({Spec({3, height, width}, 0)}, {Spec({3, 2 * height, 1}, 0)}, height, width, rows, columns);
      } catch (const mx::Error&) {
        refused = true;
      }
      CHECK(refused);
    }
}

void transposes_of_every_shape() {
  for (int64_t rows : {1, 4, 15, 16, 17, 70, 200})
    for (int64_t columns : {4, 5, 31, 33, 64, 300}) {
      std::vector<float> x(static_cast<size_t>(rows * columns)), out(x.size());
      std::iota(x.begin(), x.end(), 0.0f);
      const Move move{0, 0, {columns, rows}, {1, columns}, {rows, 1}, 0, 0};
      const auto plan = shared(make_move_plan({Spec({rows, columns}, 0)}, {Spec({columns, rows}, 0)}, {move}, {}, 0));
      CHECK(run(plan, {tensor(x, 0)}, {tensor(out, 0)}) == MX_OK);
      for (int64_t i = 0; i < columns; ++i)
        for (int64_t j = 0; j < rows; ++j)
          CHECK(out[static_cast<size_t>(i * rows + j)] == x[static_cast<size_t>(j * columns + i)]);
    }
}

void a_composite_keeps_its_parts_and_what_lies_between() {
  const Spec spec({1000}, 0), one({1}, 0);
  std::vector<float> x(1000, 0.0f), total(1);
  auto exponential =
      shared(make_expression_plan(expression(1, {{MX_OP_EXP, 0, 0, kUnused, kUnused}}, {1}), {spec}, {spec}, {}));
  auto sum = shared(make_reduce_plan({spec}, {one}, {kSum, {true}, false, false}));
  const auto plan = shared(make_composite_plan({spec}, {one}, {spec},
                                               {{exponential.get(), {0}, {2}, {}}, {sum.get(), {2}, {1}, {}}}, 0));
  exponential.reset();
  sum.reset();
  CHECK(run(plan, {tensor(x, 0)}, {tensor(total, 0)}) == MX_OK && total[0] == 1000.0f);
  CHECK(run(plan, {tensor(x, 0)}, {tensor(total, 0)}, 2, MX_REQ_ADD) == MX_OK && total[0] == 2000.0f);
}

}  // namespace

int main() {
  sorts_of_every_length();
  columns_are_sorted_and_scattered_back();
  views_that_do_not_fit_are_refused();
  images_of_every_extent();
  transposes_of_every_shape();
  a_composite_keeps_its_parts_and_what_lies_between();
  std::puts("ok");
}
