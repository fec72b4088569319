// SPDX-License-Identifier: Apache-2.0
//
// Boxes, regions, samplers, CTC, correlation and draws without Python: for the sanitizers, with what is
// out of bounds, no number, or nothing at all.
#include <cmath>
#include <limits>

#include "any_request.hpp"
#include "vision/boxes.hpp"
#include "vision/correlation.hpp"
#include "loss/ctc.hpp"
#include "vision/multibox.hpp"
#include "elementwise/arange.hpp"
#include "vision/regions.hpp"
#include "vision/bilinear_sampler.hpp"
#include "random/variates.hpp"

namespace {

void ctc_of_every_length() {
  for (int64_t steps : {1, 7, 200})
    for (int64_t labels : {0, 1, 5, 150})
      for (double scale : {1.0, 5000.0}) {
        const int64_t batch = 3, classes = 11, most = std::min(labels, steps);
        std::vector<double> data = numbers<double>(steps * batch * classes, -scale, scale), losses(batch),
                            slopes(data.size());
        std::vector<int64_t> label(static_cast<size_t>(batch * most));
        for (size_t i = 0; i < label.size(); ++i) label[i] = 1 + static_cast<int64_t>(i * i % 10);
        const auto plan = shared(make_ctc_plan(
            {Spec({steps, batch, classes}, MX_FLOAT64), Spec({batch, most}, MX_INT64)},
            {Spec({batch}, MX_FLOAT64), Spec({steps, batch, classes}, MX_FLOAT64)}, {true, {}, {}}));
        for (uint8_t request : kRequests)
          CHECK(run(plan, {tensor(data, MX_FLOAT64), tensor(label, MX_INT64)},
                    {tensor(losses, MX_FLOAT64), tensor(slopes, MX_FLOAT64)}, 2, request) == MX_OK);
        for (double loss : losses) CHECK(loss >= 0 && std::isfinite(loss));
        if (label.empty()) continue;
        label.back() = classes;
        CHECK(run(plan, {tensor(data, MX_FLOAT64), tensor(label, MX_INT64)},
                  {tensor(losses, MX_FLOAT64), tensor(slopes, MX_FLOAT64)}) == MX_ERROR_INDEX);
      }
}

// The slope of a loss by every number is the difference that the number makes.  With large numbers some
// probabilities are next to nothing.
void ctc_slopes(double scale) {
  const int64_t steps = 5, batch = 2, classes = 4;
  std::vector<double> data = numbers<double>(steps * batch * classes, -scale, scale), losses(batch),
                      slopes(data.size());
  std::vector<int64_t> label = {1, 2, 2, 3};
  const auto plan = shared(make_ctc_plan(
      {Spec({steps, batch, classes}, MX_FLOAT64), Spec({batch, 2}, MX_INT64)},
      {Spec({batch}, MX_FLOAT64), Spec({steps, batch, classes}, MX_FLOAT64)}, {true, {}, {}}));
  const auto losses_of = [&] {
    CHECK(run(plan, {tensor(data, MX_FLOAT64), tensor(label, MX_INT64)},
              {tensor(losses, MX_FLOAT64), tensor(slopes, MX_FLOAT64)}) == MX_OK);
    return losses[0] + losses[1];
  };
  losses_of();
  const std::vector<double> found = slopes;
  for (size_t i = 0; i < data.size(); ++i) {
    const double x = data[i], little = 1e-4;
    data[i] = x + little;
    const double above = losses_of();
    data[i] = x - little;
    CHECK(std::fabs((above - losses_of()) / (2 * little) - found[i]) < 1e-6);
    data[i] = x;
  }
}

void boxes_of_every_number() {
  for (int64_t n : {0, 1, 3, 500}) {
    std::vector<float> rows = numbers<float>(2 * n * 6), kept(rows.size());
    if (n > 1) rows[7] = std::nanf("");
    std::vector<int64_t> source(static_cast<size_t>(2 * n));
    for (int64_t topk : {-1, 0, 2}) {
      const auto plan = shared(make_box_nms_plan({Spec({2, n, 6}, 0)}, {Spec({2, n, 6}, 0), Spec({2, n}, MX_INT64)},
                                                 {0.3, -0.5, topk, 2, 1, 0, -1, false, true, false}));
      for (uint8_t request : kRequests)
        CHECK(run(plan, {tensor(rows, 0)}, {tensor(kept, 0), tensor(source, MX_INT64)}, 2, request) == MX_OK);
      // The rows were added twice over: not all of them name rows any more.
      CHECK(run(plan, {tensor(rows, 0)}, {tensor(kept, 0), tensor(source, MX_INT64)}) == MX_OK);
      std::vector<float> grad(rows.size());
      const auto back = shared(make_box_nms_backward_plan({Spec({2, n, 6}, 0), Spec({2, n}, MX_INT64)},
                                                          {Spec({2, n, 6}, 0)}));
      CHECK(run(back, {tensor(rows, 0), tensor(source, MX_INT64)}, {tensor(grad, 0)}) == MX_OK);
      if (n == 0) continue;
      source[0] = n;
      CHECK(run(back, {tensor(rows, 0), tensor(source, MX_INT64)}, {tensor(grad, 0)}) == MX_ERROR_INDEX);
    }
    std::vector<std::vector<float>> pair = {numbers<float>(4 * n), numbers<float>(4 * 37)};
    CHECK(all_requests(shared(make_box_iou_plan({Spec({n, 4}, 0), Spec({37, 4}, 0)}, {Spec({n, 37}, 0)}, false)), pair,
                       {n * 37}) == MX_OK);
    std::vector<std::vector<float>> scores = {numbers<float>(2 * n * 5)};
    CHECK(all_requests(shared(make_bipartite_plan({Spec({2, n, 5}, 0)}, {Spec({2, n}, 0), Spec({2, 5}, 0)}, false, 0.1, -1)),
                       scores, {2 * n, 10}) == MX_OK);
  }
}

void detectors_of_every_number() {
  const std::vector<double> variances = {0.1, 0.1, 0.2, 0.2};
  for (int64_t anchors : {0, 1, 300})
    for (int64_t objects : {0, 1, 9}) {
      std::vector<std::vector<float>> target = {numbers<float>(4 * anchors, 0, 1), numbers<float>(2 * objects * 5, 0, 1),
                                                numbers<float>(2 * 3 * anchors)};
      for (double mining : {-1.0, 3.0, 1e300})
        CHECK(all_requests(shared(make_multibox_target_plan(
                               {Spec({1, anchors, 4}, 0), Spec({2, objects, 5}, 0), Spec({2, 3, anchors}, 0)},
                               {Spec({2, 4 * anchors}, 0), Spec({2, 4 * anchors}, 0), Spec({2, anchors}, 0)},
                               {0.5, -1, mining, 0.5, variances})),
                           target, {8 * anchors, 8 * anchors, 2 * anchors}) == MX_OK);
      std::vector<std::vector<float>> found = {numbers<float>(2 * 3 * anchors), numbers<float>(2 * 4 * anchors),
                                               numbers<float>(4 * anchors, 0, 1)};
      for (int64_t topk : {-1, 5})
        CHECK(all_requests(shared(make_multibox_detection_plan(
                               {Spec({2, 3, anchors}, 0), Spec({2, 4 * anchors}, 0), Spec({1, anchors, 4}, 0)},
                               {Spec({2, anchors, 6}, 0)}, {0.1, 0.5, true, false, topk, variances})),
                           found, {12 * anchors}) == MX_OK);
    }
}

void matches_out_of_bounds() {
  std::vector<std::vector<float>> inputs = {{1, 1}, {0, 3}, numbers<float>(8), numbers<float>(12), numbers<float>(4),
                                            numbers<float>(4)};
  const auto plan = shared(make_box_encode_plan({Spec({1, 2}, 0), Spec({1, 2}, 0), Spec({1, 2, 4}, 0), Spec({1, 3, 4}, 0),
                                                 Spec({4}, 0), Spec({4}, 0)},
                                                {Spec({1, 2, 4}, 0), Spec({1, 2, 4}, 0)}));
  CHECK(all_requests(plan, inputs, {8, 8}) == MX_ERROR_INDEX);
  inputs[1][1] = std::nanf("");
  CHECK(all_requests(plan, inputs, {8, 8}) == MX_ERROR_INDEX);
  inputs[1][1] = 2;
  CHECK(all_requests(plan, inputs, {8, 8}) == MX_OK);
}

void regions_anywhere() {
  const float huge = std::numeric_limits<float>::max(), infinite = std::numeric_limits<float>::infinity();
  const Spec data({2, 8, 5, 7}, 0), rois({1, 5}, 0), result({1, 8, 2, 2}, 0), own({1, 2, 2, 2}, 0);
  for (float image : {-1.0f, 0.0f, 1.0f, 2.0f, huge, infinite})
    for (float x : {0.0f, -30.0f, 1e4f, huge, infinite})
      for (bool sensitive : {false, true}) {
        const Spec& made = sensitive ? own : result;
        const AlignOptions o{{2, 2, 0.5}, 2, sensitive, true};
        std::vector<std::vector<float>> inputs = {numbers<float>(data.size()), {image, x, 1, 6, x}};
        all_requests(shared(make_roi_align_plan({data, rois}, {made}, o)), inputs, {made.size()});
        inputs = {numbers<float>(made.size()), inputs[0], inputs[1]};
        all_requests(shared(make_roi_align_backward_plan({made, data, rois}, {data}, o)), inputs, {data.size()});
        std::vector<float> region = inputs[2], out(32);
        std::vector<int32_t> places(32, -1);
        const auto plan = shared(make_roi_pooling_plan({data, rois}, {result, Spec({1, 8, 2, 2}, MX_INT32)}, {2, 2, 0.5}));
        for (uint8_t request : {MX_REQ_NULL, MX_REQ_WRITE})
          run(plan, {tensor(inputs[1], 0), tensor(region, 0)}, {tensor(out, 0), tensor(places, MX_INT32)}, 2, request);
        std::vector<float> grad(static_cast<size_t>(data.size()));
        const auto back = shared(make_roi_pooling_backward_plan({result, data, rois, Spec({1, 8, 2, 2}, MX_INT32)}, {data},
                                                                {2, 2, 0.5}));
        const bool there = image < 2 && x < 1e30f;
        const auto pulled = [&] {
          return run(back, {tensor(out, 0), tensor(inputs[1], 0), tensor(region, 0), tensor(places, MX_INT32)},
                     {tensor(grad, 0)});
        };
        CHECK(!there || pulled() == MX_OK);
        places[3] = 35;
        CHECK(pulled() == MX_ERROR_INDEX);
      }
}

template <class T>
void samples_anywhere() {
  const int dtype = sizeof(T) == 4 ? MX_FLOAT32 : MX_FLOAT64;
  for (int64_t points : {2, 300}) {
    const Spec data({2, 17, 3, 5}, dtype), grid({2, 2, 2, points}, dtype), result({2, 17, 2, points}, dtype);
    std::vector<std::vector<T>> inputs = {numbers<T>(data.size()), numbers<T>(grid.size(), -3, 3)};
    inputs[1][0] = std::numeric_limits<T>::quiet_NaN();
    inputs[1][1] = std::numeric_limits<T>::infinity();
    inputs[1][2] = std::numeric_limits<T>::max();
    CHECK(all_requests(shared(make_sampler_plan({data, grid}, {result})), inputs, {result.size()}) == MX_OK);
    inputs.insert(inputs.begin(), numbers<T>(result.size()));
    CHECK(all_requests(shared(make_sampler_backward_plan({result, data, grid}, {data, grid})), inputs,
                       {data.size(), grid.size()}) == MX_OK);
  }
  const Spec grid({3, 2, 4, 5}, dtype), matrices({3, 6}, dtype);
  std::vector<std::vector<T>> given = {numbers<T>(18)}, head = {numbers<T>(grid.size())};
  CHECK(all_requests(shared(make_affine_grid_plan({matrices}, {grid})), given, {grid.size()}) == MX_OK);
  CHECK(all_requests(shared(make_affine_grid_backward_plan({grid}, {matrices})), head, {18}) == MX_OK);
  for (bool backward : {false, true})
    CHECK(all_requests(shared(make_warp_grid_plan({grid}, {grid}, backward)), head, {grid.size()}) == MX_OK);
}

void correlations_of_every_kind() {
  for (bool multiply : {false, true})
    for (int64_t stride : {1, 2})
      for (int64_t pad : {0, 3}) {
        const CorrelationOptions o{3, 2, stride, 2, pad, multiply};
        const int64_t height = 9 + 2 * pad - 6, width = 12 + 2 * pad - 6;
        const Spec data({2, 3, 9, 12}, 0);
        const Spec result({2, 9, (height + stride - 1) / stride, (width + stride - 1) / stride}, 0);
        std::vector<std::vector<float>> inputs = {numbers<float>(data.size()), numbers<float>(data.size())};
        CHECK(all_requests(shared(make_correlation_plan({data, data}, {result}, o)), inputs, {result.size()}) == MX_OK);
        inputs.insert(inputs.begin(), numbers<float>(result.size()));
        CHECK(all_requests(shared(make_correlation_backward_plan({result, data, data}, {data, data}, o)), inputs,
                           {data.size(), data.size()}) == MX_OK);
      }
}

void draws_do_not_depend_on_threads() {
  for (Variate variate : {Variate::kUniform, Variate::kNormal, Variate::kExponential, Variate::kGamma,
                          Variate::kPoisson, Variate::kNegativeBinomial, Variate::kGeneralized}) {
    const bool two = variate != Variate::kExponential && variate != Variate::kPoisson;
    std::vector<Spec> specs(two ? 2 : 1, Spec({1000}, 0));
    std::vector<std::vector<float>> parameters(specs.size(), numbers<float>(1000, 0.1, 0.9));
    std::vector<mx_tensor> given;
    for (auto& x : parameters) given.push_back(tensor(x, 0));
    std::vector<float> one(3000), other(3000);
    const auto plan = shared(make_variate_plan(specs, {Spec({1000, 3}, 0)}, {"draw", variate, true, 3}));
    CHECK(run(plan, given, {tensor(one, 0)}, 1) == MX_OK && run(plan, given, {tensor(other, 0)}, 2) == MX_OK);
    CHECK(one == other);
    parameters[0][7] = std::nanf("");
    CHECK(run(plan, given, {tensor(one, 0)}) == MX_ERROR_VALUE);
  }
}

void classes_stay_inside() {
  std::vector<double> weights = {0, 0, 1, 1, 2, 3, 5e-324, 0, 0, 1e307, 1e307, 1e307};
  std::vector<int64_t> found(4 * 1000);
  std::vector<double> logarithms(found.size());
  const auto plan = shared(make_multinomial_plan({Spec({4, 3}, MX_FLOAT64)},
                                                 {Spec({4, 1000}, MX_INT64), Spec({4, 1000}, MX_FLOAT64)}, 1000));
  CHECK(run(plan, {tensor(weights, MX_FLOAT64)}, {tensor(found, MX_INT64), tensor(logarithms, MX_FLOAT64)}) == MX_OK);
  for (int64_t i : found) CHECK(i >= 0 && i < 3);
  for (double wrong : {-1.0, double(std::nan("")), HUGE_VAL}) {
    weights[7] = wrong;
    CHECK(run(plan, {tensor(weights, MX_FLOAT64)}, {tensor(found, MX_INT64), tensor(logarithms, MX_FLOAT64)}) ==
          MX_ERROR_VALUE);
  }
}

void progressions_of_every_type() {
  for (int dtype : {MX_FLOAT32, MX_FLOAT64, MX_INT32, MX_INT64}) {
    const auto plan = shared(make_progression_plan({Spec({3001}, dtype)}, {0, 2, 3, 7.0}));
    std::vector<int64_t> memory(3001);
    mx_tensor t = tensor(memory, dtype);
    t.bytes = 3001 * item_size(dtype);
    for (uint8_t request : kRequests) CHECK(run(plan, {}, {t}, 2, request) == MX_OK);
  }
}

}  // namespace

int main() {
  ctc_of_every_length();
  for (double scale : {1.0, 300.0}) ctc_slopes(scale);
  boxes_of_every_number();
  detectors_of_every_number();
  matches_out_of_bounds();
  regions_anywhere();
  samples_anywhere<float>();
  samples_anywhere<double>();
  correlations_of_every_kind();
  draws_do_not_depend_on_threads();
  classes_stay_inside();
  progressions_of_every_type();
  std::puts("ok");
}
