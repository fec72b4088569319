// SPDX-License-Identifier: Apache-2.0
#include "norm_graph.hpp"

#include <algorithm>

#include "mx_core/failure.hpp"

namespace mx::cuda::dnn {
namespace {

constexpr int64_t kEpsilonId = 9;

const char* name_of(const Norm& what) {
  return what.gradient ? "cuDNN gradient of a normalization" : "cuDNN normalization";
}

std::vector<Pointer> operations_of(const Norm& what, Parts& parts) {
  if (what.x.size() != 4 || std::any_of(what.x.begin(), what.x.end(), [](int64_t n) { return n <= 0; })) {
    throw Error(MX_ERROR_VALUE, std::string("[") + name_of(what) + "] expected four extents above 0");
  }
  const std::vector<int64_t> along{1, what.x[1], 1, 1};
  const std::vector<int64_t> over = what.mode == Norm::kBatch ? along : std::vector<int64_t>{what.x[0], 1, 1, 1};
  const int type = type_of(what.dtype), narrow = type_of(what.vectors);
  const auto data = [&](int64_t id) -> const Descriptor& { return parts.tensor(id, type, what.x, what.last); };
  const auto vector = [&](int64_t id) -> const Descriptor& { return parts.tensor(id, narrow, along, what.last); };
  const auto statistic = [&](int64_t id) -> const Descriptor& { return parts.tensor(id, kFloat32, over, what.last); };
  if (what.gradient) {
    Descriptor& made = parts.keep(kNormBackOperation);
    made.set_choice(kNormBackMode, kNormModeType, what.mode)
        .set(kNormBackX, data(1))
        .set(kNormBackDy, data(2))
        .set(kNormBackScale, vector(3))
        .set(kNormBackMean, statistic(4))
        .set(kNormBackInverse, statistic(5))
        .set(kNormBackDscale, vector(6))
        .set(kNormBackDbias, vector(7))
        .set(kNormBackDx, data(8))
        .finalize();
    return {made.get()};
  }
  Descriptor& made = parts.keep(kNormOperation);
  made.set_choice(kNormMode, kNormModeType, what.mode)
      .set_choice(kNormPhase, kNormPhaseType, kTraining)
      .set(kNormX, data(1))
      .set(kNormY, data(2))
      .set(kNormScale, vector(3))
      .set(kNormBias, vector(4))
      .set(kNormMean, statistic(5))
      .set(kNormInverse, statistic(6))
      .set(kNormEpsilon, parts.constant(kEpsilonId, what.epsilon, what.x.size()))
      .finalize();
  return {made.get()};
}

}  // namespace

NormPlan::NormPlan(const Norm& what, const Choice& choice, const Gpu* gpu, const std::string& properties)
    : GraphPlan(name_of(what), what.dtype, choice, gpu, properties,
                [&what](Parts& parts) { return operations_of(what, parts); }) {}

}  // namespace mx::cuda::dnn
