// SPDX-License-Identifier: Apache-2.0
//
// BatchNorm whose statistics are those of the batches of several devices together. Each device computes its own, meets
// the others, and goes on with the joint ones; on the way back sums of gradients meet likewise. A plan uses one thread:
// a team must not wait.
#include "common/engine_wait.hpp"
#include "common/rendezvous.hpp"
#include "norm/batch_norm.hpp"
#include "norm/channel_rows.hpp"

namespace mx::cpu {
namespace {

// What both directions share.
class JointPlan : public Plan {
 protected:
  JointPlan(const Signature& s, const BatchNormOptions& o, const RendezvousOptions& m, const Spec& data)
      : Plan(s, bandwidth_cost(s)), o_(o), m_(m), v_(data.shape, o.axis), rendezvous_(Rendezvous::of(m.name)),
        engine_(m.engine) {
    // Runs of one element have loops in float alone.
    if (v_.inner == 1 && data.dtype == MX_BFLOAT16) throw Unsupported{};
    set_flags(MX_PLAN_HEAVY);
  }

  int64_t channels() const { return v_.length; }
  double count() const { return static_cast<double>(v_.outer * v_.inner); }  // elements per channel

  Rendezvous::Met meet(const Call& call, Rendezvous::Part part, int64_t step = 0) const {
    const mx_context here = call.context.context;
    return rendezvous_.join(here.id, std::move(part), m_.devices, Rendezvous::Seconds(m_.patience),
                            [&](const std::function<bool()>& over) { engine_.until(here, over); }, step);
  }

  // Calls body(first channel, block) with all channels.
  template <class Body>
  void for_blocks(const Body& body) const {
    if (count() == 0) return;
    const int64_t width = block_channels(v_.inner);
    for (int64_t first = 0; first < v_.length; first += width)
      body(first, Block{v_.outer, v_.length * v_.inner, std::min(width, v_.length - first), v_.inner});
  }

  const BatchNormOptions o_;
  const RendezvousOptions m_;
  const AxisView v_;

 private:
  Rendezvous& rendezvous_;
  const EngineWait engine_;  // layers side by side would take all threads of their devices, each waiting for another one
};

template <class T>
class SyncBatchNorm final : public JointPlan {
  using S = Statistic<T>;

 public:
  SyncBatchNorm(const Signature& s, const BatchNormOptions& o, const RendezvousOptions& m)
      : JointPlan(counted(s, 5, 4), o, m, s.inputs[0]) {
    require_forward<T>(s, channels());
  }

 private:
  void execute(const Call& call) const override {
    const size_t width = static_cast<size_t>(channels());
    const Rendezvous::Met met = meet(call, moments(call));
    set_step(call, signature_, met.number);
    double seen = 0;
    std::vector<double> mean(width), squares(width);
    for (const auto& member : *met.parts) {
      const Rendezvous::Part& part = member.second;
      if (part[0] == 0) continue;
      for (size_t c = 0; c < width; ++c)
        join_moments(seen, part[0], part[1 + c], part[1 + width + c], &mean[c], &squares[c]);
      seen += part[0];
    }
    std::vector<S> shown(width), scale(width);
    for (size_t c = 0; c < width; ++c) {
      shown[c] = static_cast<S>(mean[c]);
      scale[c] = finish_channel<S>(o_, call, static_cast<int64_t>(c), shown[c], static_cast<S>(squares[c] / seen));
    }
    if (!call.wanted(0)) return;
    for_blocks([&](int64_t first, const Block& block) {
      normalize(call.input<T>(0) + first * v_.inner, shown.data() + first, scale.data() + first,
                call.input<S>(2) + first, call.output<T>(0) + first * v_.inner, block, call.adds(0));
    });
  }

  // How many elements there are per channel, their means, their sums of squared deviations.
  Rendezvous::Part moments(const Call& call) const {
    const int64_t width = channels();
    Rendezvous::Part part(static_cast<size_t>(1 + 2 * width));
    part[0] = count();
    for_blocks([&](int64_t first, const Block& block) {
      const T* x = call.input<T>(0) + first * v_.inner;
      S mean[kBlockChannels];
      double* means = part.data() + 1 + first;
      sums(x, block, means);
      for (int64_t c = 0; c < block.channels; ++c) means[c] = mean[c] = static_cast<S>(means[c] / part[0]);
      squared_deviations(x, mean, block, means + width);
    });
    return part;
  }
};

template <class T>
class SyncBatchNormBackward final : public JointPlan {
  using S = Statistic<T>;

 public:
  SyncBatchNormBackward(const Signature& s, const BatchNormOptions& o, const RendezvousOptions& m)
      : JointPlan(counted(s, 8, 3), o, m, s.inputs[1]) {
    require_backward<T>(s, channels());
  }

 private:
  void execute(const Call& call) const override {
    const int64_t width = channels();
    const S* mean = call.input<S>(3);
    // How many elements there are per channel, sums of g, sums of g * (x - mean).
    Rendezvous::Part own(static_cast<size_t>(1 + 2 * width));
    own[0] = count();
    for_blocks([&](int64_t first, const Block& block) {
      const int64_t at = first * v_.inner;
      double* totals = own.data() + 1 + first;
      gradient_sums(call.input<T>(0) + at, call.input<T>(1) + at, mean + first, block, totals, totals + width);
    });
    // The parameters' gradients are those of this device; a store sums them.
    for (int64_t c = 0; c < width; ++c)
      finish_channel_gradient<S>(o_, call, c, own[0], own[static_cast<size_t>(1 + c)],
                                 own[static_cast<size_t>(1 + width + c)]);
    Rendezvous::Part joint(own.size());
    // Operations of several steps may run in any order, where nothing that they write is the same.
    const Rendezvous::Met met = meet(call, std::move(own), *call.input<int64_t>(7));
    for (const auto& member : *met.parts)
      for (size_t i = 0; i < joint.size(); ++i) joint[i] += member.second[i];
    if (!call.wanted(0)) return;
    std::vector<S> a(static_cast<size_t>(width)), b(a.size()), c(a.size());
    for (size_t i = 0; i < a.size(); ++i) {
      const Coefficients<S> k = coefficients<S>(o_, call, static_cast<int64_t>(i), joint[0], joint[1 + i],
                                                joint[1 + a.size() + i]);
      a[i] = k.a;
      b[i] = k.b;
      c[i] = k.c;
    }
    for_blocks([&](int64_t first, const Block& block) {
      const int64_t at = first * v_.inner;
      combine(call.input<T>(0) + at, call.input<T>(1) + at, mean + first, a.data() + first, b.data() + first,
              c.data() + first, call.output<T>(0) + at, block, call.adds(0));
    });
  }
};

}  // namespace

PlanPtr sync_batch_norm(const Signature& s, const BatchNormOptions& o, const RendezvousOptions& m) {
  const int32_t dtype = counted(s, 5, 4).inputs[0].dtype;
  if (dtype == MX_FLOAT64) return std::make_unique<SyncBatchNorm<double>>(s, o, m);
  if (dtype == MX_BFLOAT16) return std::make_unique<SyncBatchNorm<BFloat16>>(s, o, m);
  return std::make_unique<SyncBatchNorm<float>>(s, o, m);
}

PlanPtr sync_batch_norm_backward(const Signature& s, const BatchNormOptions& o, const RendezvousOptions& m) {
  const int32_t dtype = counted(s, 8, 3).inputs[1].dtype;
  if (dtype == MX_FLOAT64) return std::make_unique<SyncBatchNormBackward<double>>(s, o, m);
  if (dtype == MX_BFLOAT16) return std::make_unique<SyncBatchNormBackward<BFloat16>>(s, o, m);
  return std::make_unique<SyncBatchNormBackward<float>>(s, o, m);
}

}  // namespace mx::cpu
