// SPDX-License-Identifier: Apache-2.0
//
// Products and normalisations, in the types that they have, against plain loops.
#include "matmul/matmul.hpp"
#include "norm/norm.hpp"
#include "signatures.hpp"

namespace {

double tolerance(int32_t dtype) { return dtype == MX_FLOAT32 ? 1e-5 : 2e-2; }

// a (m, k) times b (k, n), either of them transposed in memory.
Floats product(const Floats& a, const Floats& b, size_t m, size_t k, size_t n, bool at = false, bool bt = false) {
  Floats c(m * n);
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) {
      double sum = 0;
      for (size_t q = 0; q < k; ++q)
        sum += static_cast<double>(a[at ? q * m + i : i * k + q]) * b[bt ? j * k + q : q * n + j];
      c[i * n + j] = static_cast<float>(sum);
    }
  return c;
}

void fully_connected_layers() {
  for (int32_t dtype : primitive_types())
    for (int64_t rows : {1, 3, 40, 300}) {
      const int64_t depth = 37, hidden = 21;
      const Spec x({rows, depth}, dtype), w({hidden, depth}, dtype), b({hidden}, dtype), y({rows, hidden}, dtype);
      const auto r = static_cast<size_t>(rows), d = static_cast<size_t>(depth), h = static_cast<size_t>(hidden);
      const Signature s{{x, w, b}, {y}};
      const auto in = drawn(s);
      Floats want = product(in[0], in[1], r, d, h, false, true);
      for (size_t i = 0; i < want.size(); ++i) want[i] += in[2][i % h];
      verify(shared(fully_connected(s)), s, in, {want}, tolerance(dtype));
      const Signature back{{y, x, w}, {x, w, b}};
      const auto given = drawn(back);
      Floats sums(h);
      for (size_t i = 0; i < given[0].size(); ++i) sums[i % h] += given[0][i];
      verify(shared(fully_connected_backward(back)), back, given,
             {product(given[0], given[2], r, h, d), product(given[0], given[1], h, r, d, true), sums},
             tolerance(dtype));
    }
}

void products() {
  for (int32_t dtype : primitive_types())
    for (bool at : {false, true})
      for (bool bt : {false, true})
        for (int64_t m : {2, 65}) {
          const int64_t k = 33, n = 18;
          MatmulOptions o{1, m, k, n, at, bt, false};
          const Spec a({m, k}, dtype), b({k, n}, dtype), c({m, n}, dtype);
          const auto M = static_cast<size_t>(m), K = static_cast<size_t>(k), N = static_cast<size_t>(n);
          const Signature s{{a, b}, {c}};
          const auto in = drawn(s);
          verify(shared(matmul(s, o)), s, in, {product(in[0], in[1], M, K, N, at, bt)}, tolerance(dtype));
          if (at || bt) continue;
          const Signature back{{c, a, b}, {a, b}};
          const auto given = drawn(back);
          verify(shared(dot_backward(back, o)), back, given,
                 {product(given[0], given[2], M, N, K, false, true), product(given[1], given[0], K, M, N, true)},
                 tolerance(dtype));
        }
}

// (x - mean) / deviation of [begin, begin + n * step).
void normalise(const Floats& x, size_t begin, size_t n, size_t step, double eps, Floats* y, double* mean, double* std) {
  double sum = 0, squares = 0;
  for (size_t i = 0; i < n; ++i) sum += x[begin + i * step];
  *mean = sum / static_cast<double>(n);
  for (size_t i = 0; i < n; ++i) squares += (x[begin + i * step] - *mean) * (x[begin + i * step] - *mean);
  *std = std::sqrt(squares / static_cast<double>(n) + eps);
  for (size_t i = 0; i < n; ++i) (*y)[begin + i * step] = static_cast<float>((x[begin + i * step] - *mean) / *std);
}

void layer_norms() {
  for (int32_t dtype : kTypes)
    for (int64_t n : {1, 19, 300}) {
      const int64_t rows = 7;
      const Spec x({rows, n}, dtype), gamma({n}, dtype), per_row({rows}, MX_FLOAT32);
      const Signature s{{x, gamma, gamma}, {x, per_row, per_row}};
      const auto in = drawn(s);
      Floats y(in[0].size()), means, deviations;
      for (size_t r = 0; r < 7; ++r) {
        double mean = 0, std = 0;
        normalise(in[0], r * static_cast<size_t>(n), static_cast<size_t>(n), 1, 1e-5, &y, &mean, &std);
        means.push_back(static_cast<float>(mean)), deviations.push_back(static_cast<float>(std));
      }
      for (size_t i = 0; i < y.size(); ++i) {
        const size_t c = i % static_cast<size_t>(n);
        y[i] = y[i] * in[1][c] + in[2][c];
      }
      verify(shared(layer_norm(s, {1, 1e-5})), s, in, {y, means, deviations}, tolerance(dtype));
      if (dtype != MX_FLOAT32) continue;  // in float32 alone
      const Signature back{{x, x, gamma, per_row, per_row}, {x, gamma, gamma}};
      auto given = drawn(back);
      given[3] = means, given[4] = deviations;
      Floats sums(static_cast<size_t>(n));
      for (size_t i = 0; i < given[0].size(); ++i) sums[i % sums.size()] += given[0][i];
      const auto got = computed(shared(layer_norm_backward(back, {1, 1e-5})), back, given);
      CHECK(close(got[2], sums, tolerance(dtype)));
    }
}

void batch_norms() {
  for (int32_t dtype : kTypes)
    for (bool last : {false, true})
      for (bool trains : {false, true}) {
        const int64_t c = 18, n = 6, plane = 35;
        const Spec x = last ? Spec({n, plane, c}, dtype) : Spec({n, c, plane}, dtype), each({c}, MX_FLOAT32);
        const BatchNormOptions o{last ? 2 : 1, 1e-3, 0.9, false, trains};
        const Signature s{{x, each, each, each, each}, {x, each, each}};
        auto in = drawn(s);
        for (float& v : in[4]) v = v * v + 1;
        for (uint8_t request : kRequests) computed(shared(batch_norm(s, o)), s, in, request);
        const auto got = computed(shared(batch_norm(s, o)), s, in);
        double sum = 0, want = 0;  // of channel 0, which gamma and beta shift
        for (size_t i = 0; i < got[0].size(); ++i) {
          if ((last ? i % 18 : i / 35 % 18) != 0) continue;
          sum += got[0][i];
          want += trains ? in[2][0] : in[1][0] * (in[0][i] - in[3][0]) / std::sqrt(in[4][0] + 1e-3) + in[2][0];
        }
        CHECK(std::fabs(sum - want) / 210 < tolerance(dtype));
        const Signature back{{x, x, each, each, each, each, each}, {x, each, each}};
        auto given = drawn(back);
        for (size_t i : {4u, 6u})
          for (float& v : given[i]) v = v * v + 1;
        const Shared plan = shared(batch_norm_backward(back, o));
        for (uint8_t request : kRequests) computed(plan, back, given, request);
        Floats sums(18);
        for (size_t i = 0; i < given[0].size(); ++i) sums[last ? i % 18 : i / 35 % 18] += given[0][i];
        CHECK(close(computed(plan, back, given)[2], sums, tolerance(dtype)));
      }
}

void other_norms() {
  for (int32_t dtype : kTypes) {
    const Spec x({2, 6, 5, 4}, dtype), each({3}, dtype), per_group({2, 3}, MX_FLOAT32);
    const Signature s{{x, each, each}, {x, per_group, per_group}};
    const Signature back{{x, x, each, per_group, per_group}, {x, each, each}};
    for (uint8_t request : kRequests) {
      CHECK(finite(computed(shared(group_norm(s, {3, 1e-5})), s, drawn(s), request)[0]));
      auto given = drawn(back);
      for (float& v : given[4]) v = v * v + 1;
      CHECK(finite(computed(shared(group_norm_backward(back, {3, 1e-5})), back, given, request)[0]));
    }
  }
  const Spec x({2, 9, 4, 3}, MX_FLOAT32);
  const Signature s{{x}, {x, x}}, back{{x, x, x}, {x}};
  for (uint8_t request : kRequests) {
    CHECK(finite(computed(shared(lrn(s, {})), s, drawn(s), request)[0]));
    auto given = drawn(back);
    for (float& v : given[2]) v = v * v + 2;
    CHECK(finite(computed(shared(lrn_backward(back, {})), back, given, request)[0]));
  }
}

}  // namespace

int main() {
  return test::run({{"fully connected layers", fully_connected_layers}, {"products", products},
                    {"layer norms", layer_norms}, {"batch norms", batch_norms}, {"other norms", other_norms}});
}
