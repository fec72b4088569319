// SPDX-License-Identifier: Apache-2.0
//
// Plans without Python: for the sanitizers, which then see every native access, and for threads
// that share a plan.
#include <cmath>
#include <cstdio>
#include <thread>
#include <vector>

#include "elementwise/expression_plan.hpp"
#include "indexing/index.hpp"
#include "simd/loops.hpp"
#include "indexing/strided_copy.hpp"
#include "plans.hpp"
#include "random/random.hpp"
#include "reduce/reduce.hpp"

namespace {

void many_threads_share_a_plan() {
  const int64_t n = 300'000;
  const Spec spec({n}, MX_FLOAT32);
  // exp(x) * y + x
  const auto plan = shared(make_expression_plan(
      expression(2, {{MX_OP_EXP, 0, 0, kUnused, kUnused}, {MX_OP_MUL, 0, 2, 1, kUnused},
                     {MX_OP_ADD, 0, 3, 0, kUnused}}, {4}),
      {spec, spec}, {spec}, {}));
  std::vector<float> x(n, 0.5f), y(n, 2.0f);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int repeat = 0; repeat < 5; ++repeat) {
        std::vector<float> out(n);
        CHECK(run(plan, {tensor(x, 0), tensor(y, 0)}, {tensor(out, 0)}) == MX_OK);
        for (float v : out) CHECK(std::fabs(v - 3.7974424f) < 1e-5f);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

void instruction_sets_agree() {
  std::vector<float> x(1000), want(1000), got(1000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = (static_cast<float>(i) - 500.0f) / 40.0f;
  for (int opcode : {MX_OP_EXP, MX_OP_TANH, MX_OP_ERF, MX_OP_SIGMOID, MX_OP_SIN, MX_OP_RINT}) {
    baseline_loops().op[F32][opcode][0](want.data(), x.data(), nullptr, nullptr, x.size());
    for (const char* name : {"avx2", "avx512"}) {
      const LoopTable* table = loops_named(name);
      if (table == nullptr) continue;
      table->op[F32][opcode][0](got.data(), x.data(), nullptr, nullptr, x.size());
      for (size_t i = 0; i < x.size(); ++i)
        CHECK(std::fabs(got[i] - want[i]) <= 1e-6f * std::fabs(want[i]));
    }
  }
}

void pixels_are_mixed_and_turned() {
  constexpr size_t kRoom = 16;
  for (const char* name : {"baseline", "avx2", "avx512"}) {
    const LoopTable* table = loops_named(name);
    if (table == nullptr) continue;
    for (size_t channels : {1, 3, 4, 5}) {
      const size_t n = 37;
      std::vector<uint8_t> row((n + 1) * channels + kRoom), out(n * channels);
      for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<uint8_t>(i * 101);
      std::vector<int32_t> places(n);
      std::vector<uint32_t> weights(n);
      for (size_t i = 0; i < n; ++i) {
        places[i] = static_cast<int32_t>((n - 1 - i) * channels);
        weights[i] = static_cast<uint32_t>(2048 - 55 * i) | static_cast<uint32_t>(55 * i) << 16;
      }
      std::vector<int16_t> mixed(n * channels + kRoom);
      table->mix_pixels(mixed.data(), row.data(), places.data(), weights.data(), channels, n);
      table->mix_rows(out.data(), mixed.data(), mixed.data(), 1500, 548, n * channels);
      for (size_t i = 0; i < n * channels; ++i) {
        const size_t pixel = i / channels, at = static_cast<size_t>(places[pixel]) + i % channels;
        const int want = (static_cast<int>(weights[pixel] & 0xffff) * row[at] +
                          static_cast<int>(weights[pixel] >> 16) * row[at + channels]) >> 4;
        CHECK(mixed[i] == want);
        CHECK(out[i] == ((want * 1500 >> 16) + (want * 548 >> 16) + 2) >> 2);
      }
    }
    for (size_t n = 0; n < 40; ++n) {
      std::vector<uint8_t> row(3 * n), turned(3 * n);
      for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<uint8_t>(i);
      table->reverse_triples(turned.data(), row.data(), n);
      for (size_t i = 0; i < row.size(); ++i) CHECK(turned[i] == row[3 * (n - 1 - i / 3) + i % 3]);
    }
  }
}

void sixteen_bit_conversions_agree() {
  std::vector<uint16_t> half(65536), back(65536);
  std::vector<float> wide(65536);
  for (size_t i = 0; i < half.size(); ++i) half[i] = static_cast<uint16_t>(i);
  for (const char* name : {"baseline", "avx2", "avx512"}) {
    const LoopTable* table = loops_named(name);
    if (table == nullptr) continue;
    for (int dtype : {MX_FLOAT16, MX_BFLOAT16}) {
      table->load[dtype][F32](wide.data(), half.data(), half.size());
      table->store[F32][dtype](back.data(), wide.data(), half.size());
      for (size_t i = 0; i < half.size(); ++i) CHECK(back[i] == half[i] || wide[i] != wide[i]);
    }
  }
}

template <class T, class Transpose>
void transposes_stay_inside(Transpose transpose) {
  for (int64_t rows : {1, 3, 8, 40, 65})
    for (int64_t n : {1, 2, 3, 4, 7, 32, 33, 100}) {
      const auto size = static_cast<size_t>(rows * n);
      std::vector<T> from(size), to(size);
      for (size_t i = 0; i < size; ++i) from[i] = static_cast<T>(i);
      transpose(to.data(), n, from.data(), rows, rows, n);
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < n; ++j)
          CHECK(to[static_cast<size_t>(i * n + j)] == from[static_cast<size_t>(i + j * rows)]);
    }
}

void every_instruction_set_transposes() {
  for (const char* name : {"baseline", "avx2", "avx512"}) {
    const LoopTable* table = loops_named(name);
    if (table == nullptr) continue;
    transposes_stay_inside<uint16_t>(table->transpose16);
    transposes_stay_inside<uint32_t>(table->transpose32);
  }
}

void every_shape_stays_inside() {
  for (int64_t rows : {1, 3, 17, 700})
    for (int64_t columns : {1, 5, 513, 600}) {
      const auto n = static_cast<size_t>(rows * columns);
      std::vector<float> x(n, 1.0f), bias(static_cast<size_t>(columns), 2.0f), out(n);
      const Spec whole({rows, columns}, 0), row({columns}, 0), column({rows, 1}, 0);
      const auto add = expression(2, {{MX_OP_ADD, 0, 0, 1, kUnused}}, {2});
      const auto plan = shared(make_expression_plan(add, {whole, row}, {whole}, {}));
      CHECK(run(plan, {tensor(x, 0), tensor(bias, 0)}, {tensor(out, 0)}) == MX_OK);
      for (float v : out) CHECK(v == 3.0f);
      std::vector<float> side(static_cast<size_t>(rows), 4.0f);
      const auto other = shared(make_expression_plan(add, {whole, column}, {whole}, {}));
      CHECK(run(other, {tensor(x, 0), tensor(side, 0)}, {tensor(out, 0)}) == MX_OK);
      for (float v : out) CHECK(v == 5.0f);
      std::vector<float> sums(static_cast<size_t>(rows)), totals(static_cast<size_t>(columns));
      CHECK(run(shared(make_reduce_plan({whole}, {column}, {kSum, {false, true}})),
                {tensor(x, 0)}, {tensor(sums, 0)}) == MX_OK);
      for (float v : sums) CHECK(v == static_cast<float>(columns));
      CHECK(run(shared(make_reduce_plan({whole}, {row}, {kSum, {true, false}})), {tensor(x, 0)},
                {tensor(totals, 0)}) == MX_OK);
      for (float v : totals) CHECK(v == static_cast<float>(rows));
      const Move flip{0, 0, {columns, rows}, {1, columns}, {rows, 1}, 0, 0};
      CHECK(run(shared(make_move_plan({whole}, {Spec({columns, rows}, 0)}, {flip}, {}, 0)),
                {tensor(x, 0)}, {tensor(out, 0)}) == MX_OK);
    }
}

void a_move_out_of_bounds_is_refused() {
  const Spec spec({4}, 0);
  bool refused = false;
  try {
    make_move_plan({spec}, {spec}, {{0, 0, {4}, {2}, {1}, 0, 0}}, {}, 0);
  } catch (const mx::Error& error) {
    refused = error.code() == MX_ERROR_SHAPE;
  }
  CHECK(refused);
}

void an_index_out_of_bounds_is_an_error() {
  std::vector<float> table(12, 1.0f), out(6);
  std::vector<int32_t> indices = {3, 4};
  const auto plan = shared(make_index_plan(
      {Spec({4, 3}, 0), Spec({2}, MX_INT32)}, {Spec({2, 3}, 0)},
      {"take", IndexAction::kGather, Bounds::kRaise, 0, 1, {4}, 1, 2, 3}));
  CHECK(run(plan, {tensor(table, 0), tensor(indices, MX_INT32)}, {tensor(out, 0)}) == MX_ERROR_INDEX);
}

void random_numbers_do_not_depend_on_threads() {
  std::vector<float> one(50'001), two(50'001);
  const auto plan = shared(make_random_plan({}, {Spec({50'001}, 0)},
                                            {"normal", Distribution::kNormal, 0, 0, 25'001}));
  CHECK(run(plan, {}, {tensor(one, 0)}, 1) == MX_OK);
  CHECK(run(plan, {}, {tensor(two, 0)}, 2) == MX_OK);
  CHECK(one == two);
}

}  // namespace

int main() {
  many_threads_share_a_plan();
  instruction_sets_agree();
  pixels_are_mixed_and_turned();
  sixteen_bit_conversions_agree();
  every_instruction_set_transposes();
  every_shape_stays_inside();
  a_move_out_of_bounds_is_refused();
  an_index_out_of_bounds_is_an_error();
  random_numbers_do_not_depend_on_threads();
  std::puts("ok");
}
