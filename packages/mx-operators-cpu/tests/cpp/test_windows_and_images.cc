// SPDX-License-Identifier: Apache-2.0
//
// Running sums, counts, windows, deformed windows, regions, proposals, images and event sequences
// without Python: for the sanitizers, with what is out of bounds, no number, or nothing at all.
#include <cmath>
#include <limits>

#include "any_request.hpp"
#include "convolution/col2im.hpp"
#include "convolution/deformable.hpp"
#include "reduce/all_finite.hpp"
#include "loss/hawkes.hpp"
#include "reduce/histogram.hpp"
#include "image/images.hpp"
#include "matmul/matmul_loops.hpp"
#include "vision/proposal.hpp"
#include "vision/regions.hpp"
#include "reduce/scan.hpp"
#include "optimizer/sgd_adam.hpp"

namespace {

const double kBad[] = {std::nan(""), std::numeric_limits<double>::infinity(), -1e30, 1e30, -3.5, 0.0};

template <class T>
constexpr int code() {
  return sizeof(T) == 4 ? MX_FLOAT32 : MX_FLOAT64;
}

template <class T>
void sums_of_every_length() {
  for (int64_t outer : {0, 1, 3})
    for (int64_t extent : {0, 1, 9, 40'000})
      for (int64_t inner : {1, 2, 300}) {
        if (extent > 9 && inner > 2) continue;
        const Spec spec({outer, extent, inner}, code<T>());
        std::vector<std::vector<T>> in = {numbers<T>(spec.size())};
        for (bool reverse : {false, true})
          CHECK(all_requests(shared(make_scan_plan({spec}, {spec}, {outer, extent, inner, reverse})), in, {spec.size()}) == MX_OK);
      }
}

void counts_of_every_number() {
  std::vector<float> data = numbers<float>(100'003, -2, 2);
  for (size_t i = 0; i < 6; ++i) data[i * 1000] = static_cast<float>(kBad[i]);
  const Spec spec({100'003}, MX_FLOAT32);
  for (int64_t bins : {1, 7, 1000}) {
    std::vector<double> edges;
    for (int64_t i = 0; i <= bins; ++i) edges.push_back(-1 + 2.0 * static_cast<double>(i) / static_cast<double>(bins));
    std::vector<int64_t> counts(static_cast<size_t>(bins));
    std::vector<float> made(edges.size()), given(edges.begin(), edges.end());
    const std::vector<Spec> results = {Spec({bins}, MX_INT64), Spec({bins + 1}, MX_FLOAT32)};
    for (uint8_t request : kRequests) {
      CHECK(run(shared(make_histogram_plan({spec}, results, edges)), {tensor(data, 0)},
                {tensor(counts, MX_INT64), tensor(made, 0)}, 3, request) == MX_OK);
      CHECK(run(shared(make_histogram_plan({spec, results[1]}, results, {})), {tensor(data, 0), tensor(given, 0)},
                {tensor(counts, MX_INT64), tensor(made, 0)}, 3, request) == MX_OK);
    }
    given[0] = std::nanf("");
    CHECK(run(shared(make_histogram_plan({spec, results[1]}, results, {})), {tensor(data, 0), tensor(given, 0)},
              {tensor(counts, MX_INT64), tensor(made, 0)}) == MX_ERROR_VALUE);
  }
}

template <class T>
void windows_of_every_kind() {
  for (int64_t size : {1, 5, 12})
    for (int64_t kernel : {1, 2, 4})
      for (int64_t stride : {1, 3})
        for (int64_t dilate : {1, 3})
          for (int64_t pad : {0, 2, 11}) {
            const ColumnAxis axis{size, kernel, stride, dilate, pad};
            if (size + 2 * pad < dilate * (kernel - 1) + 1) continue;
            const int64_t windows = axis.windows();
            const Spec image({2, 3, size, size}, code<T>()), columns({2, 3 * kernel * kernel, windows * windows}, code<T>());
            std::vector<std::vector<T>> in = {numbers<T>(columns.size())};
            CHECK(all_requests(shared(make_columns_to_image_plan({columns}, {image}, {axis, axis})), in, {image.size()}) == MX_OK);
          }
}

template <class T>
void bent_windows_anywhere() {
  for (bool masked : {false, true})
    for (int64_t side : {1, 20}) {
      const int64_t out = side + 1;  // kernel 2, pad 1
      const DeformableOptions o{{2, 2}, {1, 1}, {1, 1}, {1, 1}, 2, masked};
      const Spec data({2, 4, side, side}, code<T>()), offset({2, 16, out, out}, code<T>()), mask({2, 8, out, out}, code<T>());
      const Spec columns({16, 2 * out * out}, code<T>());
      std::vector<Spec> given = {data, offset};
      if (masked) given.push_back(mask);
      std::vector<std::vector<T>> in;
      std::vector<int64_t> results;
      for (const Spec& spec : given) {
        in.push_back(numbers<T>(spec.size(), -3, 3));
        results.push_back(spec.size());
      }
      for (size_t i = 0; i < 6; ++i) in[1][i % in[1].size()] = static_cast<T>(kBad[i]);
      CHECK(all_requests(shared(make_deformable_columns_plan(given, {columns}, o)), in, {columns.size()}) == MX_OK);
      in.insert(in.begin(), numbers<T>(columns.size()));
      std::vector<Spec> all = given;
      all.insert(all.begin(), columns);
      CHECK(all_requests(shared(make_deformable_backward_plan(all, given, o)), in, results) == MX_OK);
    }
}

template <class T>
void products_of_every_size() {
  for (int64_t m : {0, 1, 4, 7})
    for (int64_t k : {0, 1, 9})
      for (int64_t n : {0, 1, 16, 35})
        for (int transposes = 0; transposes < 4; ++transposes) {
          std::vector<std::vector<T>> in = {numbers<T>(2 * m * k), numbers<T>(2 * k * n)};
          const auto plan = shared(make_product_plan({Spec({2 * m * k}, code<T>()), Spec({2 * k * n}, code<T>())},
                                                     {Spec({2, m, n}, code<T>())}, {2, m, k, n, transposes / 2 > 0, transposes % 2 > 0}));
          CHECK(all_requests(plan, in, {2 * m * n}) == MX_OK);
        }
}

void regions_anywhere() {
  const Spec data({2, 8, 6, 5}, 0);
  for (double bad : kBad)
    for (size_t place = 0; place < 6; ++place) {
      std::vector<std::vector<float>> in = {numbers<float>(data.size()), {0, 2, 2, 3, 4, 30}};
      in[1][place] = static_cast<float>(bad);
      const auto rotated = shared(make_rotated_align_plan({data, Spec({1, 6}, 0)}, {Spec({1, 8, 2, 3}, 0)}, {2, 3, 0.7}, -1));
      const int32_t status = all_requests(rotated, in, {48});
      CHECK(status == MX_OK || status == MX_ERROR_INDEX || status == MX_ERROR_VALUE);
      const auto back = shared(make_rotated_align_backward_plan({Spec({1, 8, 2, 3}, 0), data, Spec({1, 6}, 0)}, {data}, {2, 3, 0.7}, 2));
      in.insert(in.begin(), numbers<float>(48));
      all_requests(back, in, {data.size()});
      in[2].resize(5);
      const Spec rois({1, 5}, 0), pooled({1, 2, 3, 3}, 0);
      in[0] = numbers<float>(18);
      all_requests(shared(make_psroi_pooling_backward_plan({pooled, data, rois}, {data}, {3, 3, 0.7}, 2)), in, {data.size()});
      in.erase(in.begin());
      all_requests(shared(make_psroi_pooling_plan({data, rois}, {pooled}, {3, 3, 0.7}, 2)), in, {18});
    }
}

void proposals_of_every_number() {
  const Spec prob({2, 4, 3, 5}, 0), moves({2, 8, 3, 5}, 0), info({2, 3}, 0);
  for (bool corners : {false, true})
    for (double bad : kBad) {
      std::vector<std::vector<float>> in = {numbers<float>(120), numbers<float>(240), {40, 70, 1, -40, 90, 2}};
      for (size_t i = 30; i < 40; ++i) in[0][i] = in[1][i] = static_cast<float>(bad);
      const ProposalOptions o{{{-8, -8, 23, 23}, {-24, -24, 39, 39}}, 16, 11, 7, 0.5, 4, corners, "proposal"};
      const auto plan = shared(make_proposal_plan({prob, moves, info}, {Spec({14, 5}, 0), Spec({14, 1}, 0)}, o));
      CHECK(all_requests(plan, in, {70, 14}) == MX_OK);
      in[2][1] = static_cast<float>(bad);
      const int32_t status = all_requests(plan, in, {70, 14});
      CHECK(status == (std::isfinite(bad) ? MX_OK : MX_ERROR_VALUE));
    }
}

void images_of_every_size() {
  for (int64_t channels : {1, 3, 5, 9000})
    for (int64_t side : {0, 1, 23}) {
      if (channels > 5 && side > 1) continue;
      const Spec image({side, side, channels}, MX_UINT8), tensor_spec({channels, side, side}, 0);
      std::vector<uint8_t> pixels(static_cast<size_t>(image.size()), 200), mirrored(pixels.size());
      std::vector<float> made(pixels.size()), normal(pixels.size());
      for (uint8_t request : kRequests) {
        CHECK(run(shared(make_to_tensor_plan({image}, {tensor_spec})), {tensor(pixels, MX_UINT8)}, {tensor(made, 0)}, 2, request) == MX_OK);
        const std::vector<double> means(static_cast<size_t>(channels), 0.5), deviations(static_cast<size_t>(channels), 0.0);
        CHECK(run(shared(make_normalize_plan({tensor_spec}, {tensor_spec}, means, deviations)), {tensor(made, 0)},
                  {tensor(normal, 0)}, 2, request) == MX_OK);
        CHECK(run(shared(make_flip_plan({image}, {image}, side, channels, channels == 3)), {tensor(pixels, MX_UINT8)},
                  {tensor(mirrored, MX_UINT8)}, 2, request) == MX_OK);
      }
      if (side == 0) continue;
      const Mixing mixing{{0, 1, 3}, {0, side - 1, 0}, {1, 0.25, 0.75}};
      const Spec small({2, 2, channels}, MX_UINT8);
      std::vector<uint8_t> resized(static_cast<size_t>(small.size()));
      const Mixing two_rows{{0, 2, 4}, {0, 0, side - 1, 0}, {0.5, 0.5, 0.25, 0.75}};
      const Mixing neighbours = side > 1 ? Mixing{{0, 1, 3}, {side - 1, side - 2, side - 1}, {1, 0.25, 0.75}}
                                         : Mixing{{0, 1, 2}, {0, 0}, {1, 1}};
      for (Rounding rounding : {Rounding::kNone, Rounding::kFixed, Rounding::kPaired})
        for (uint8_t request : kRequests)
          CHECK(run(shared(make_image_resize_plan({image}, {small}, two_rows, neighbours, rounding)),
                    {tensor(pixels, MX_UINT8)}, {tensor(resized, MX_UINT8)}, 2, request) == MX_OK);
      for (Rounding rounding : {Rounding::kNone, Rounding::kFixed})
        CHECK(run(shared(make_image_resize_plan({image}, {small}, mixing, mixing, rounding)), {tensor(pixels, MX_UINT8)},
                  {tensor(resized, MX_UINT8)}, 2, MX_REQ_WRITE) == MX_OK);
      for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 37 % 251);
      for (Rounding rounding : {Rounding::kNone, Rounding::kFixed, Rounding::kPaired}) {
        CHECK(run(shared(make_image_resize_plan({image}, {small}, two_rows, neighbours, rounding)),
                  {tensor(pixels, MX_UINT8)}, {tensor(resized, MX_UINT8)}) == MX_OK);
        for (int64_t i = 0; i < small.size(); ++i) {
          const int64_t row = i / channels / 2, column = i / channels % 2;
          double want = 0;
          for (int64_t a = two_rows.begins[row]; a < two_rows.begins[row + 1]; ++a)
            for (int64_t b = neighbours.begins[column]; b < neighbours.begins[column + 1]; ++b)
              want += two_rows.weights[a] * neighbours.weights[b] *
                      pixels[(two_rows.columns[a] * side + neighbours.columns[b]) * channels + i % channels];
          CHECK(std::fabs(resized[i] - want) <= 1);
        }
      }
      bool refused = false;
      try {
        make_image_resize_plan({image}, {small}, mixing, mixing, Rounding::kPaired);
      } catch (const mx::Error&) {
        refused = true;
      }
      CHECK(refused);
    }
}

template <class T>
void events_of_every_mark() {
  for (int64_t sequences : {0, 1, 4})
    for (int64_t events : {0, 1, 6}) {
      const int64_t kinds = 2;
      const auto spec = [](Shape shape) { return Spec(std::move(shape), code<T>()); };
      std::vector<Spec> given = {spec({sequences, kinds}), spec({kinds}), spec({kinds}), spec({sequences, kinds}),
                                 spec({sequences, events}), spec({sequences, events}), spec({sequences}), spec({sequences})};
      std::vector<std::vector<T>> in;
      for (const Spec& s : given) in.push_back(numbers<T>(s.size(), 0.1, 0.9));
      std::fill(in[6].begin(), in[6].end(), T(100));
      const int64_t table = sequences * kinds;
      const auto plan = shared(make_hawkes_plan(given, {spec({sequences}), spec({sequences, kinds})}));
      CHECK(all_requests(plan, in, {sequences, table}) == MX_OK);
      for (double bad : {std::nan(""), 2.0, -1.0, 1e30}) {
        if (in[5].empty()) continue;
        auto wrong = in;
        wrong[5].back() = static_cast<T>(bad);
        CHECK(run(plan, {tensor(wrong[0], code<T>()), tensor(wrong[1], code<T>()), tensor(wrong[2], code<T>()),
                         tensor(wrong[3], code<T>()), tensor(wrong[4], code<T>()), tensor(wrong[5], code<T>()),
                         tensor(wrong[6], code<T>()), tensor(wrong[7], code<T>())},
                  {tensor(in[6], code<T>()), tensor(in[0], code<T>())}) == MX_ERROR_INDEX);
      }
      in.insert(in.begin(), numbers<T>(sequences));
      given.insert(given.begin(), spec({sequences}));
      const auto back = shared(make_hawkes_backward_plan(given, {given[1], given[2], given[3]}));
      CHECK(all_requests(back, in, {table, kinds, kinds}) == MX_OK);
    }
}

void arrays_as_a_whole() {
  for (int64_t n : {0, 1, 200'001})
    for (double bad : kBad) {
      std::vector<double> x = numbers<double>(n);
      if (n > 0) x.back() = bad;
      std::vector<float> answer(1);
      const auto plan = shared(make_all_finite_plan({Spec({n}, MX_FLOAT64)}, {Spec({1}, 0)}));
      for (uint8_t request : kRequests) CHECK(run(plan, {tensor(x, MX_FLOAT64)}, {tensor(answer, 0)}, 2, request) == MX_OK);
      CHECK(run(plan, {tensor(x, MX_FLOAT64)}, {tensor(answer, 0)}) == MX_OK);
      CHECK((answer[0] == 1.0f) == (n == 0 || std::isfinite(bad)));
      CHECK(run(shared(make_reset_plan({Spec({n}, MX_FLOAT64)})), {tensor(x, MX_FLOAT64)}, {}) == MX_OK);
      for (double value : x) CHECK(value == 0);
    }
}

void steps_of_every_rule() {
  for (UpdateRule rule : {UpdateRule::kSgd, UpdateRule::kMomentum, UpdateRule::kAdam, UpdateRule::kAdamW})
    for (int64_t n : {0, 1, 40'001})
      for (double bad : kBad) {
        const uint32_t width = rule == UpdateRule::kSgd ? 2 : rule == UpdateRule::kMomentum ? 3 : 4;
        std::vector<Spec> given;
        std::vector<std::vector<float>> in;
        for (uint32_t i = 0; i < 2 * width; ++i) {
          const int64_t size = i < width ? n : 3;
          given.emplace_back(Shape{size}, MX_FLOAT32);
          in.push_back(numbers<float>(size));
        }
        given.emplace_back(Shape{1}, MX_FLOAT32);
        in.push_back({static_cast<float>(bad)});
        std::vector<Setting> settings(8, Setting{0.5, {}, {}, 0});
        settings[0].scalar = 1;
        settings[2].input = 2 * width;
        const std::vector<Spec> results = {given[0], given[width]};
        CHECK(all_requests(shared(make_update_plan(given, results, rule, {{0, 0, settings}, {width, 1, settings}}, 2)), in,
                           {n, 3}) == MX_OK);
      }
}

}  // namespace

int main() {
  sums_of_every_length<float>();
  sums_of_every_length<double>();
  counts_of_every_number();
  windows_of_every_kind<float>();
  windows_of_every_kind<double>();
  bent_windows_anywhere<float>();
  bent_windows_anywhere<double>();
  products_of_every_size<float>();
  products_of_every_size<double>();
  regions_anywhere();
  proposals_of_every_number();
  images_of_every_size();
  events_of_every_mark<float>();
  events_of_every_mark<double>();
  arrays_as_a_whole();
  steps_of_every_rule();
  std::puts("ok");
}
