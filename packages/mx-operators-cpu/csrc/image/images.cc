// SPDX-License-Identifier: Apache-2.0
#include "image/images.hpp"

#include <algorithm>
#include <cstring>

#include "simd/accumulate.hpp"
#include "common/clones.hpp"
#include "simd/loops.hpp"
#include "indexing/strided_copy.hpp"
#include "mx_core/philox.hpp"
#include "common/parallel.hpp"
#include "common/upcast.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kTile = 8192;  // elements converted at a time

template <int64_t Channels>
MX_INLINE void plane_of(float* __restrict to, const float* __restrict from, int64_t channels, int64_t n) {
  const int64_t step = Channels > 0 ? Channels : channels;
  for (int64_t i = 0; i < n; ++i) to[i] = from[i * step] / 255.0f;
}
MX_CLONES(void, scaled_plane, (float* __restrict to, const float* __restrict from, int64_t channels, int64_t n),
          (to, from, channels, n)) {
  channels == 3 ? plane_of<3>(to, from, 3, n) : channels == 1 ? plane_of<1>(to, from, 1, n) : plane_of<0>(to, from, channels, n);
}

class ToTensorPlan final : public Plan {
 public:
  ToTensorPlan(std::vector<Spec> inputs, std::vector<Spec> outputs)
      : Plan(std::move(inputs), std::move(outputs)),
        channels_(inputs_[0].shape.back()),
        area_(inputs_[0].shape[inputs_[0].shape.size() - 2] * inputs_[0].shape[inputs_[0].shape.size() - 3]),
        tile_(add_thread_scratch(static_cast<size_t>(some() * channels_) * sizeof(float))) {}

 protected:
  void execute(const Call& call) const override {
    if (!call.wanted(0) || outputs_[0].size() == 0) return;
    const int64_t some = this->some(), blocks = (area_ + some - 1) / some;
    const int dtype = inputs_[0].dtype;
    const auto item = static_cast<int64_t>(item_size(dtype));
    const int64_t images = outputs_[0].size() / channels_ / area_;
    parallel_for(images * blocks, 8, [&](int64_t begin, int64_t end, int thread) {
      auto* tile = tile_.of<float>(call, thread);
      float values[kDelivered];
      for (int64_t task = begin; task < end; ++task) {
        const int64_t image = task / blocks, first = task % blocks * some, n = std::min(some, area_ - first);
        loops().load[dtype][F32](tile, call.input(0) + (image * area_ + first) * channels_ * item,
                                 static_cast<size_t>(n * channels_));
        for (int64_t c = 0; c < channels_; ++c) {
          scaled_plane(values, tile + c, channels_, n);
          deliver(call, 0, outputs_[0], F32, values, (image * channels_ + c) * area_ + first, n);
        }
      }
    });
  }

 private:
  // Pixels converted together.
  int64_t some() const { return std::clamp<int64_t>(kTile / std::max<int64_t>(channels_, 1), 1, kDelivered); }

  const int64_t channels_, area_;
  const PerThread tile_;
};

class NormalizePlan final : public Plan {
 public:
  NormalizePlan(std::vector<Spec> inputs, std::vector<Spec> outputs, std::vector<double> mean, std::vector<double> deviation)
      : Plan(std::move(inputs), std::move(outputs)), mean_(std::move(mean)), deviation_(std::move(deviation)) {}

 protected:
  void execute(const Call& call) const override {
    if (!call.wanted(0) || outputs_[0].size() == 0) return;
    compute_of(inputs_[0].dtype) == F64 ? compute<double>(call) : compute<float>(call);
  }

 private:
  template <class T>
  void compute(const Call& call) const {
    const Shape& shape = inputs_[0].shape;
    const int64_t area = shape[shape.size() - 1] * shape[shape.size() - 2], blocks = (area + kDelivered - 1) / kDelivered;
    const int dtype = inputs_[0].dtype;
    const auto item = static_cast<int64_t>(item_size(dtype));
    parallel_for(inputs_[0].size() / area * blocks, 16, [&](int64_t begin, int64_t end) {
      alignas(64) T values[kDelivered];
      for (int64_t task = begin; task < end; ++task) {
        const int64_t plane = task / blocks, first = task % blocks * kDelivered, n = std::min(kDelivered, area - first);
        const auto c = static_cast<size_t>(plane) % mean_.size();
        loops().load[dtype][ComputeOf<T>::code](values, call.input(0) + (plane * area + first) * item, static_cast<size_t>(n));
        const T mean = static_cast<T>(mean_[c]), deviation = static_cast<T>(deviation_[c]);
        for (int64_t i = 0; i < n; ++i) values[i] = (values[i] - mean) / deviation;
        deliver(call, 0, outputs_[0], ComputeOf<T>::code, values, plane * area + first, n);
      }
    });
  }

  const std::vector<double> mean_, deviation_;
};

template <size_t Bytes>
void reverse_units(char* to, const char* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    std::memcpy(to + i * static_cast<int64_t>(Bytes), from + (n - 1 - i) * static_cast<int64_t>(Bytes), Bytes);
}

class FlipPlan final : public Plan {
 public:
  FlipPlan(std::vector<Spec> inputs, std::vector<Spec> outputs, int64_t extent, int64_t inner, bool random)
      : Plan(std::move(inputs), std::move(outputs)), extent_(extent), inner_(inner) {
    random_blocks = random ? 1 : 0;
  }

 protected:
  void execute(const Call& call) const override {
    const Spec& spec = outputs_[0];
    if (!call.wanted(0) || spec.size() == 0) return;
    const bool flipped = random_blocks == 0 || drawn(call) < 0.5f;
    const int64_t row = extent_ * inner_;
    const auto bytes = static_cast<size_t>(row) * item_size(spec.dtype);
    const int64_t rows = spec.size() / row;
    char* out = call.target(0);
    parallel_for(rows, 16, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const char* from = call.input(0) + static_cast<size_t>(r) * bytes;
        char* to = out + static_cast<size_t>(r) * bytes;
        flipped ? reverse(to, from) : static_cast<void>(std::memcpy(to, from, bytes));
      }
    });
  }

  bool stages(size_t, const uint8_t* req) const override { return req[0] == MX_REQ_ADD; }

 private:
  static float drawn(const Call& call) {
    return philox::uniform32(philox::block(call.context.random_key, call.context.random_offset).words[0]);
  }

  void reverse(char* to, const char* from) const {
    const size_t unit = static_cast<size_t>(inner_) * item_size(outputs_[0].dtype);
    switch (unit) {
      case 1:
        return reverse_units<1>(to, from, extent_);
      case 3:
        return loops().reverse_triples(to, from, static_cast<size_t>(extent_));
      case 4:
        return reverse_units<4>(to, from, extent_);
      case 12:
        return reverse_units<12>(to, from, extent_);
      default:
        for (int64_t i = 0; i < extent_; ++i)
          std::memcpy(to + static_cast<size_t>(i) * unit, from + static_cast<size_t>(extent_ - 1 - i) * unit, unit);
    }
  }

  const int64_t extent_, inner_;
};

bool is_image(const Spec& spec) { return spec.shape.size() == 3 || spec.shape.size() == 4; }

}  // namespace

PlanPtr make_to_tensor_plan(std::vector<Spec> inputs, std::vector<Spec> outputs) {
  fits(inputs.size() == 1 && outputs.size() == 1 && is_image(inputs[0]) && inputs[0].size() == outputs[0].size() &&
           floating(outputs[0].dtype),
       "_image_to_tensor");
  return std::make_unique<ToTensorPlan>(std::move(inputs), std::move(outputs));
}

PlanPtr make_normalize_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, std::vector<double> mean,
                            std::vector<double> deviation) {
  fits(!inputs.empty() && outputs.size() == 1 && is_image(inputs[0]) && inputs[0].size() == outputs[0].size() &&
           floating(inputs[0].dtype) && floating(outputs[0].dtype) && !mean.empty() && mean.size() == deviation.size() &&
           static_cast<int64_t>(mean.size()) == inputs[0].shape[inputs[0].shape.size() - 3],
       "_image_normalize");
  return std::make_unique<NormalizePlan>(std::move(inputs), std::move(outputs), std::move(mean), std::move(deviation));
}

PlanPtr make_flip_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, int64_t extent, int64_t inner, bool random) {
  const int64_t row = extent * inner;
  fits(inputs.size() == 1 && outputs.size() == 1 && inputs[0].dtype == outputs[0].dtype && extent >= 0 && inner >= 0 &&
           inputs[0].size() == outputs[0].size() && (row == 0 ? outputs[0].size() == 0 : outputs[0].size() % row == 0),
       "_image_flip");
  return std::make_unique<FlipPlan>(std::move(inputs), std::move(outputs), extent, inner, random);
}

}  // namespace mx::cpu
