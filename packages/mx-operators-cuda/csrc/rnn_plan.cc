// SPDX-License-Identifier: Apache-2.0
#include "rnn_plan.hpp"

#include <algorithm>
#include <mutex>

#include "graph_plan.hpp"
#include "mx_core/failure.hpp"

namespace mx::cuda::dnn {
namespace {

constexpr char kName[] = "cuDNN recurrent layers";
constexpr uintptr_t kBase = uintptr_t{1} << 20;  // an address from which cuDNN counts; nothing is read there

size_t rounded(size_t bytes) { return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment; }

size_t width_of(int32_t dtype) { return dtype == MX_FLOAT32 ? 4 : 2; }

const RnnFunctions& rnn() { return functions().rnn; }

}  // namespace

// Addresses of a run; null for what there is not.
struct RnnPlan::Places {
  void *x, *parameters, *h, *c = nullptr;
  void *y = nullptr, *last_h = nullptr, *last_c = nullptr;
  void *dy = nullptr, *d_last_h = nullptr, *d_last_c = nullptr;
  void *dx = nullptr, *d_parameters = nullptr, *dh = nullptr, *dc = nullptr;
  void *work, *reserve = nullptr;
};

RnnPlan::RnnPlan(const Rnn& what, bool converts, const Gpu& gpu)
    : what_(what), rnn_(described(converts)), x_(data(what.inputs)), y_(data(int64_t{what.ways()} * what.units)),
      state_(states()) {
  const int64_t cells = what.has_cell_state() ? 2 : 1, shown = what.shows ? cells : 0;
  for (int64_t id = 1; id <= 3 + cells + shown + (what.gradient ? 1 + cells + 1 : 0); ++id) ids_.push_back(id);
  const size_t item = width_of(what.dtype), rows = static_cast<size_t>(what.steps) * static_cast<size_t>(what.batch);
  x_bytes_ = rounded(rows * static_cast<size_t>(what.inputs) * item);
  y_bytes_ = rounded(rows * static_cast<size_t>(what.ways()) * static_cast<size_t>(what.units) * item);
  Bound& mine = bound(gpu);
  const std::lock_guard<std::mutex> lock(mine.mutex);
  const Handle handle = mine.made(kName);
  check(rnn().parameter_bytes(handle, rnn_.get(), &parameters_), kName, "cudnnGetRNNWeightSpaceSize");
  check_parameters(handle);
  check(rnn().space(handle, rnn_.get(), what.gradient ? kRnnTraining : kRnnInference, x_.get(), &work_, &reserve_),
        kName, "cudnnGetRNNTempSpaceSizes");
  work_ = rounded(work_);
  workspace_ = work_ + y_bytes_ + (what.gradient ? rounded(reserve_) + x_bytes_ : 0);
}

RnnPlan::Owned<RnnTag> RnnPlan::described(bool converts) const {
  for (const int32_t n : {what_.steps, what_.batch, what_.inputs, what_.units, what_.layers}) {
    if (n <= 0) {
      throw Error(MX_ERROR_VALUE, std::string("[") + kName + "] extents: expected above 0, got " + std::to_string(n));
    }
  }
  const int type = type_of(what_.dtype);
  RnnTag* made = nullptr;
  check(rnn().make(&made), kName, "cudnnCreateRNNDescriptor");
  Owned<RnnTag> owned(made, {rnn().destroy});
  const int math = what_.dtype != MX_FLOAT32 ? kTensorMath : converts ? kConvertingMath : kPlainMath;
  check(rnn().set(made, kStandardAlgorithm, what_.cell, kTwoBiases, what_.both ? 1 : 0, kLinearInput, type, kFloat32,
                  math, what_.inputs, what_.units, what_.units, what_.layers, nullptr, kUnpadded),
        kName, "cudnnSetRNNDescriptor_v8");
  return owned;
}

RnnPlan::Owned<RnnDataTag> RnnPlan::data(int64_t width) const {
  RnnDataTag* made = nullptr;
  check(rnn().make_data(&made), kName, "cudnnCreateRNNDataDescriptor");
  Owned<RnnDataTag> owned(made, {rnn().destroy_data});
  const std::vector<int> lengths(static_cast<size_t>(what_.batch), what_.steps);
  check(rnn().set_data(made, type_of(what_.dtype), kStepsFirst, what_.steps, what_.batch, static_cast<int>(width),
                       lengths.data(), nullptr),
        kName, "cudnnSetRNNDataDescriptor");
  return owned;
}

RnnPlan::Owned<TensorTag> RnnPlan::states() const {
  TensorTag* made = nullptr;
  check(rnn().make_tensor(&made), kName, "cudnnCreateTensorDescriptor");
  Owned<TensorTag> owned(made, {rnn().destroy_tensor});
  const int extents[] = {what_.layers * what_.ways(), what_.batch, what_.units};
  const int strides[] = {what_.batch * what_.units, what_.units, 1};
  check(rnn().set_tensor(made, type_of(what_.dtype), 3, extents, strides), kName, "cudnnSetTensorNdDescriptor");
  return owned;
}

// Ours: W and R of each layer and direction, gate by gate, then their biases in the same order.
void RnnPlan::check_parameters(Handle handle) const {
  const size_t item = width_of(what_.dtype);
  const auto units = static_cast<size_t>(what_.units), gates = static_cast<size_t>(what_.gates());
  TensorTag *matrix = nullptr, *vector = nullptr;
  check(rnn().make_tensor(&matrix), kName, "cudnnCreateTensorDescriptor");
  const Owned<TensorTag> first(matrix, {rnn().destroy_tensor});
  check(rnn().make_tensor(&vector), kName, "cudnnCreateTensorDescriptor");
  const Owned<TensorTag> second(vector, {rnn().destroy_tensor});
  std::vector<size_t> matrices, vectors;  // elements before each
  size_t begin = 0;
  for (int32_t layer = 0; layer < what_.layers; ++layer) {
    const size_t read = layer == 0 ? static_cast<size_t>(what_.inputs) : units * static_cast<size_t>(what_.ways());
    for (int32_t way = 0; way < what_.ways(); ++way) {
      for (size_t i = 0; i < 2 * gates; ++i) {
        matrices.push_back(begin);
        begin += units * (i < gates ? read : units);
      }
    }
  }
  for (size_t i = 0; i < matrices.size(); ++i, begin += units) vectors.push_back(begin);
  bool same = parameters_ == begin * item;
  for (size_t i = 0; same && i < matrices.size(); ++i) {
    void *weights = nullptr, *bias = nullptr;
    check(rnn().parameter(handle, rnn_.get(), static_cast<int32_t>(i / (2 * gates)), parameters_,
                          reinterpret_cast<void*>(kBase), static_cast<int32_t>(i % (2 * gates)), matrix, &weights,
                          vector, &bias),
          kName, "cudnnGetRNNWeightParams");
    same = reinterpret_cast<uintptr_t>(weights) == kBase + matrices[i] * item &&
           reinterpret_cast<uintptr_t>(bias) == kBase + vectors[i] * item;
  }
  if (!same) throw Error(MX_ERROR_UNSUPPORTED, std::string("[") + kName + "] its parameters lie in another order");
}

RnnPlan::Places RnnPlan::placed(const std::vector<void*>& pointers, void* workspace) const {
  size_t next = 0;
  const auto take = [&] { return pointers.at(next++); };
  const auto state = [&](void** h, void** c) {
    *h = take();
    if (what_.has_cell_state()) *c = take();
  };
  Places made{};
  made.x = take();
  made.parameters = take();
  state(&made.h, &made.c);
  char* const space = static_cast<char*>(workspace);
  made.work = space;
  void* const free_y = space + work_;
  if (!what_.gradient) {
    made.y = take();
    if (made.y == nullptr) made.y = free_y;
    if (what_.shows) state(&made.last_h, &made.last_c);
    return made;
  }
  made.y = free_y;
  made.dy = take();
  if (what_.shows) state(&made.d_last_h, &made.d_last_c);
  made.dx = take();
  if (made.dx == nullptr) made.dx = space + work_ + y_bytes_;
  made.d_parameters = take();
  state(&made.dh, &made.dc);
  made.reserve = space + work_ + y_bytes_ + x_bytes_;
  return made;
}

void RnnPlan::forward(Handle handle, const Places& p, const std::string& where) const {
  check(rnn().forward(handle, rnn_.get(), what_.gradient ? kRnnTraining : kRnnInference, nullptr, x_.get(), p.x,
                      y_.get(), p.y, state_.get(), p.h, p.last_h, state_.get(), p.c, p.last_c, parameters_,
                      p.parameters, work_, p.work, what_.gradient ? reserve_ : 0, p.reserve),
        where, "cudnnRNNForward");
}

void RnnPlan::backward(Handle handle, const Places& p, const std::string& where) const {
  check(rnn().backward_data(handle, rnn_.get(), nullptr, y_.get(), p.y, p.dy, x_.get(), p.dx, state_.get(), p.h,
                            p.d_last_h, p.dh, state_.get(), p.c, p.d_last_c, p.dc, parameters_, p.parameters, work_,
                            p.work, reserve_, p.reserve),
        where, "cudnnRNNBackwardData_v8");
  if (p.d_parameters == nullptr) return;
  check(rnn().backward_parameters(handle, rnn_.get(), kAddGradient, nullptr, x_.get(), p.x, state_.get(), p.h, y_.get(),
                                  p.y, parameters_, p.d_parameters, work_, p.work, reserve_, p.reserve),
        where, "cudnnRNNBackwardWeights_v8");
}

void RnnPlan::run(const Gpu& gpu, Stream stream, const std::vector<void*>& pointers, void* workspace,
                  const std::string& where) const {
  const Places places = placed(pointers, workspace);
  Bound& mine = bound(gpu);
  const std::lock_guard<std::mutex> lock(mine.mutex);
  const Handle handle = mine.on(stream, where);
  forward(handle, places, where);
  if (what_.gradient) backward(handle, places, where);
}

}  // namespace mx::cuda::dnn
