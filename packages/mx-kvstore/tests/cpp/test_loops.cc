// SPDX-License-Identifier: Apache-2.0
#include "loops.hpp"

#include <atomic>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "fakes.hpp"
#include "mx_core/native_tests.hpp"
#include "simd.hpp"

using namespace mx::kv;

namespace {

constexpr int64_t kLong = 3'000'017;  // is cut into slices

// An array with memory and a variable of its own.
template <class T>
struct Own {
  Own(int32_t dtype, int64_t n, T first, T step) : values(static_cast<size_t>(n)), array(dtype, n, values.data(), &variable) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(first + step * static_cast<T>(i % 100));
  }
  std::vector<T> values;
  mx_variable variable;
  mx_array array;
};

void sums(int workers, int64_t n) {
  test::Engine engine(workers);
  const Tables tables{engine.table(), test::arrays()};
  Own<float> a(MX_FLOAT32, n, 1, 1), b(MX_FLOAT32, n, 2, -1), c(MX_FLOAT32, n, 5, 3), out(MX_FLOAT32, n, 0, 0);
  push_sum(tables, {&a.array, &b.array, &c.array}, {&out.array, &c.array}, 0);  // c is read and written
  CHECK(engine.wait().empty());
  CHECK(engine.reads() == 2 && engine.writes() == 2);
  for (int64_t i = 0; i < n; ++i) {
    const float expected = 8.0f + 3.0f * static_cast<float>(i % 100);
    CHECK(out.values[static_cast<size_t>(i)] == expected && c.values[static_cast<size_t>(i)] == expected);
    CHECK(a.values[static_cast<size_t>(i)] == 1.0f + static_cast<float>(i % 100));
  }
  for (const mx_array* array : {&a.array, &b.array, &c.array, &out.array}) CHECK(array->references == 1);
  CHECK((engine.pushed() > 1) == (n == kLong && workers > 1));
}

// Pieces of one vector that lie askew are read before they are written.
void views_that_lie_askew() {
  test::Engine engine(4);
  std::vector<int32_t> values(kLong);
  std::iota(values.begin(), values.end(), 0);
  mx_variable variable;
  mx_array low(MX_INT32, kLong - 1, values.data(), &variable), high(MX_INT32, kLong - 1, values.data() + 1, &variable);
  push_sum({engine.table(), test::arrays()}, {&low, &low}, {&high}, 0);
  CHECK(engine.wait().empty());
  CHECK(engine.reads() == 0 && engine.writes() == 1);
  for (int64_t i = 1; i < kLong; ++i) CHECK(values[static_cast<size_t>(i)] == 2 * (i - 1));
}

void what_does_not_fit_is_refused() {
  test::Engine engine(1);
  const Tables tables{engine.table(), test::arrays()};
  Own<float> a(MX_FLOAT32, 8, 1, 1), shorter(MX_FLOAT32, 7, 1, 1), away(MX_FLOAT32, 8, 1, 1);
  Own<double> wide(MX_FLOAT64, 8, 1, 1);
  away.array.context.type = MX_GPU;
  const auto refused = [&](std::vector<mx_array*> sources, std::vector<mx_array*> targets) {
    return test::error_of([&] { push_sum(tables, sources, targets, 0); });
  };
  CHECK(test::has(refused({&shorter.array}, {&a.array}), "expected 8 elements of float32, got 7 of float32"));
  CHECK(test::has(refused({&wide.array}, {&a.array}), "expected 8 elements of float32, got 8 of float64"));
  CHECK(test::has(refused({&away.array}, {&a.array}), "expected arrays in host memory"));
  CHECK(test::has(refused({}, {&a.array}), "a sum of nothing"));
  CHECK(engine.pushed() == 0 && a.array.references == 1 && shorter.array.references == 1);
}

void a_refused_push_is_an_error() {
  test::Engine engine(2);
  Own<float> a(MX_FLOAT32, 8, 1, 1), b(MX_FLOAT32, 8, 1, 1);
  engine.refuse_after(0);
  CHECK(test::error_of([&] { push_sum({engine.table(), test::arrays()}, {&a.array}, {&b.array}, 0); },
                       MX_ERROR_SHUTDOWN) == "refused");
  CHECK(a.array.references == 1 && b.array.references == 1);
}

// The operation fails, and ends, when the engine takes only some of its slices, or none.
void refused_slices_fail_the_operation() {
  for (const int taken : {1, 2, 3}) {
    test::Engine engine(3);
    Own<float> a(MX_FLOAT32, kLong, 1, 1), b(MX_FLOAT32, kLong, 1, 1);
    engine.refuse_after(taken);
    push_sum({engine.table(), test::arrays()}, {&a.array}, {&b.array}, 0);
    CHECK(!engine.wait().empty());
    CHECK(a.array.references == 1 && b.array.references == 1);
  }
}

class Failing final : public Loop {
 public:
  explicit Failing(bool in_finish) : in_finish_(in_finish) {}
  bool begin() override { return true; }
  void run(int64_t begin, int64_t end) override {
    seen_ += end - begin;
    if (!in_finish_ && begin <= kLong / 2 && kLong / 2 < end) throw std::runtime_error("in the middle");
  }
  void finish() override { throw std::runtime_error("at the end"); }
  int64_t seen() const { return seen_; }

 private:
  const bool in_finish_;
  std::atomic<int64_t> seen_{0};
};

void a_slice_that_fails_fails_the_operation() {
  for (const bool in_finish : {false, true}) {
    test::Engine engine(3);
    const Tables tables{engine.table(), test::arrays()};
    Own<float> a(MX_FLOAT32, kLong, 1, 1);
    const auto loop = std::make_shared<Failing>(in_finish);
    push(tables, loop, Arrays(tables.invoke, {}), Arrays(tables.invoke, {&a.array}), {kLong, 4 * kLong}, "failing", 0);
    CHECK(engine.wait() == (in_finish ? "at the end" : "in the middle"));
    CHECK(loop->seen() == kLong);
  }
}

void codes_in_slices(int workers) {
  test::Engine engine(workers);
  const Tables tables{engine.table(), test::arrays()};
  for (const Code code : {Code::kOneBit, Code::kTwoBits}) {
    const int64_t words = code_bytes(code, kLong) / 4;
    Own<float> gradient(MX_FLOAT32, kLong, -1.5f, 0.03f), residual(MX_FLOAT32, kLong, 0, 0), codes(MX_FLOAT32, words, 0, 0);
    Own<float> kept(MX_FLOAT32, kLong, 0, 0), out(MX_FLOAT32, kLong, 9, 0);
    std::vector<uint8_t> expected(static_cast<size_t>(words) * 4);
    compress(code, 0.5f, gradient.values.data(), kept.values.data(), expected.data(), kLong);
    push_compress(tables, code, 0.5f, &gradient.array, &residual.array, &codes.array, 0);
    CHECK(engine.wait().empty());
    CHECK(std::memcmp(codes.values.data(), expected.data(), expected.size()) == 0);
    CHECK(residual.values == kept.values);
    push_expand(tables, code, 0.5f, {&codes.array, &codes.array}, &out.array, 0);
    CHECK(engine.wait().empty());
    for (size_t i = 0; i < out.values.size(); ++i) CHECK(out.values[i] == 2 * (gradient.values[i] - kept.values[i]));
  }
}

}  // namespace

int main() {
  return test::run({
      {"one worker", [] { sums(1, kLong); }},
      {"two workers", [] { sums(2, kLong); }},
      {"seven workers", [] { sums(7, kLong); }},
      {"short arrays", [] { for (const int64_t n : {0, 1, 15, 16, 17, 4095, 4096, 4099}) sums(2, n); }},
      {"views that lie askew", views_that_lie_askew},
      {"what does not fit is refused", what_does_not_fit_is_refused},
      {"a refused push is an error", a_refused_push_is_an_error},
      {"refused slices fail the operation", refused_slices_fail_the_operation},
      {"a slice that fails fails the operation", a_slice_that_fails_fails_the_operation},
      {"codes in slices", [] { for (const int workers : {1, 3}) codes_in_slices(workers); }},
  });
}
