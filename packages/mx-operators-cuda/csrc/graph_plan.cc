// SPDX-License-Identifier: Apache-2.0
#include "graph_plan.hpp"

#include <algorithm>
#include <array>
#include <mutex>

#include "mx_core/failure.hpp"

namespace mx::cuda::dnn {
namespace {

constexpr int64_t kNotes = 16;  // room for all there are

}  // namespace

int type_of(int32_t dtype) {
  switch (dtype) {
    case MX_FLOAT32: return kFloat32;
    case MX_FLOAT16: return kFloat16;
    case MX_BFLOAT16: return kBFloat16;
    default: throw Error(MX_ERROR_UNSUPPORTED, "[gpu] cuDNN: type code " + std::to_string(dtype));
  }
}

std::vector<int64_t> strides_of(const std::vector<int64_t>& extents, bool last) {
  std::vector<int64_t> made(extents.size());
  int64_t step = last ? extents[1] : 1;
  for (size_t axis = extents.size(); axis-- > 0;) {
    if (last && axis == 1) continue;
    made[axis] = step;
    step *= extents[axis];
  }
  if (last) made[1] = 1;
  return made;
}

Descriptor& Parts::described(int64_t id, int type, const std::vector<int64_t>& extents,
                             const std::vector<int64_t>& strides) {
  return keep(kTensor)
      .set_choice(kTensorType, kDataTypeType, type)
      .set(kTensorExtents, extents)
      .set(kTensorStrides, strides)
      .set_number(kTensorId, id)
      .set_number(kTensorAlignment, static_cast<int64_t>(kAlignment));
}

const Descriptor& Parts::tensor(int64_t id, int type, const std::vector<int64_t>& extents, bool last) {
  return tensor(id, type, extents, strides_of(extents, last));
}

const Descriptor& Parts::tensor(int64_t id, int type, const std::vector<int64_t>& extents,
                                const std::vector<int64_t>& strides) {
  ids_.push_back(id);
  return described(id, type, extents, strides).finalize();
}

const Descriptor& Parts::between(int64_t id, const std::vector<int64_t>& extents, bool last) {
  return between(id, kFloat32, extents, strides_of(extents, last));
}

const Descriptor& Parts::between(int64_t id, int type, const std::vector<int64_t>& extents,
                                 const std::vector<int64_t>& strides) {
  constexpr bool yes = true;
  return described(id, type, extents, strides).set(kTensorVirtual, kBool, 1, &yes).finalize();
}

const Descriptor& Parts::constant(int64_t id, float value, size_t axes) {
  constexpr bool yes = true;
  constant_ids_.push_back(id);
  constants_.push_back(value);
  const std::vector<int64_t> ones(axes, 1);
  return described(id, kFloat32, ones, ones).set(kTensorByValue, kBool, 1, &yes).finalize();
}

Pointer Parts::pointwise(int mode, const Descriptor& x, const Descriptor* b, const Descriptor& y) {
  const Descriptor& how = keep(kPointwise)
                              .set_choice(kPointwiseMode, kPointwiseModeType, mode)
                              .set_choice(kPointwisePrecision, kDataTypeType, kFloat32)
                              .finalize();
  Descriptor& made = keep(kPointwiseOperation);
  made.set(kPointwiseDescriptor, how).set(kPointwiseX, x).set(kPointwiseY, y);
  if (b != nullptr) made.set(kPointwiseB, *b);
  return made.finalize().get();
}

Pointer Parts::matmul(const Descriptor& a, const Descriptor& b, const Descriptor& c) {
  const Descriptor& how = keep(kMatmul).set_choice(kMatmulPrecision, kDataTypeType, kFloat32).finalize();
  return keep(kMatmulOperation)
      .set(kMatmulDescriptor, how)
      .set(kMatmulA, a)
      .set(kMatmulB, b)
      .set(kMatmulC, c)
      .finalize()
      .get();
}

Pointer Parts::sum(const Descriptor& x, const Descriptor& y) {
  const Descriptor& how = keep(kReduction)
                              .set_choice(kReductionOperator, kReductionOperatorType, kSum)
                              .set_choice(kReductionPrecision, kDataTypeType, kFloat32)
                              .finalize();
  return keep(kReductionOperation)
      .set(kReductionDescriptor, how)
      .set(kReductionX, x)
      .set(kReductionY, y)
      .finalize()
      .get();
}

Pointer Parts::reshape(const Descriptor& x, const Descriptor& y) {
  return keep(kReshapeOperation).set(kReshapeX, x).set(kReshapeY, y).finalize().get();
}

GraphPlan::GraphPlan(const std::string& where, int32_t dtype, const Choice& choice, const Gpu* gpu,
                     const std::string& properties, const Build& build)
    : where_(where), dtype_(dtype), parts_(where) {
  Handle handle = nullptr;
  std::unique_lock<std::mutex> lock;  // cuDNN prepares with the handle too
  const Descriptor* described = nullptr;
  if (gpu != nullptr) {
    Bound& mine = bound(*gpu);
    lock = std::unique_lock<std::mutex>(mine.mutex);
    handle = mine.made(where_);
  } else {
    const auto bytes = static_cast<int64_t>(properties.size() + 1);
    described = &parts_.keep(kProperties).set(kPropertiesText, kChar, bytes, properties.c_str()).finalize();
  }
  const std::vector<Pointer> operations = build(parts_);
  Descriptor& whole = parts_.keep(kGraph);
  if (handle != nullptr) whole.set(kGraphHandle, kHandleType, 1, &handle);
  whole.set(kGraphOperations, kDescriptor, static_cast<int64_t>(operations.size()), operations.data()).finalize();
  for (const int mode : {kModeA, kModeFallback}) {
    Descriptor& heuristics = parts_.keep(kHeuristics);
    heuristics.set(kHeuristicsGraph, whole).set_choice(kHeuristicsMode, kHeuristicsModeType, mode);
    if (described != nullptr) heuristics.set(kHeuristicsProperties, *described);
    const Status status = heuristics.try_finalize();
    if (status != kOk) {
      refusal_ = describe(status);
      continue;
    }
    int64_t n = heuristics.count(kHeuristicsResults, kDescriptor);
    std::vector<Descriptor> configs;
    std::vector<Pointer> pointers;
    for (int64_t i = 0; i < n; ++i) pointers.push_back(configs.emplace_back(kEngineConfig, where_).get());
    check(functions().get(heuristics.get(), kHeuristicsResults, kDescriptor, n, &n, pointers.data()), where_,
          "cudnnBackendGetAttribute");
    for (int64_t i = 0; i < n; ++i) {
      Descriptor& config = parts_.keep(std::move(configs[static_cast<size_t>(i)]));
      if (take(config, choice, handle, described)) return;
      parts_.drop_last();
      ++passed_over_;
    }
  }
  throw Error(MX_ERROR_UNSUPPORTED, "[" + where_ + "] no engine serves (of " + std::to_string(passed_over_) + ")" +
                                        (refusal_.empty() ? "" : ": " + refusal_));
}

bool GraphPlan::allowed(const Descriptor& engine, const Choice& choice) const {
  std::array<int, kNotes> notes{};
  int64_t n = 0;
  check(functions().get(engine.get(), kEngineNumericalNotes, kNumericalNoteType, kNotes, &n, notes.data()), where_,
        "cudnnBackendGetAttribute");
  return std::none_of(notes.begin(), notes.begin() + std::min(n, kNotes), [&](int note) {
    const bool converted = note == kTensorCore || note == kDownConverts;
    return note == kReducedReduction || note == kNondeterministic ||
           (converted && dtype_ == MX_FLOAT32 && !choice.converts);
  });
}

bool GraphPlan::take(const Descriptor& config, const Choice& choice, Handle handle, const Descriptor* properties) {
  Descriptor engine(kEngine, where_);
  Pointer place = engine.get();
  int64_t n = 0;
  check(functions().get(config.get(), kConfigEngine, kDescriptor, 1, &n, &place), where_, "cudnnBackendGetAttribute");
  if (!allowed(engine, choice)) {
    refusal_ = "engine " + std::to_string(engine.number(kEngineIndex)) + " rounds, or adds up in no fixed order";
    return false;
  }
  Descriptor made(kPlan, where_);
  if (handle != nullptr) made.set(kPlanHandle, kHandleType, 1, &handle);
  if (properties != nullptr) made.set(kPlanProperties, *properties);
  made.set(kPlanConfig, config);
  const Status status = made.try_finalize();
  if (exhausted(status)) check(status, where_, "cudnnBackendFinalize");  // another time this engine may serve
  if (status != kOk) {
    refusal_ = describe(status);
    return false;
  }
  const auto bytes = static_cast<size_t>(made.number(kPlanWorkspace));
  if (bytes > choice.workspace) {
    refusal_ = "engine " + std::to_string(engine.number(kEngineIndex)) + " needs " + std::to_string(bytes) +
               " bytes of workspace, of which " + std::to_string(choice.workspace) + " are allowed";
    return false;
  }
  workspace_ = bytes;
  engine_ = engine.number(kEngineIndex);
  plan_ = &parts_.keep(std::move(made));
  return true;
}

void GraphPlan::run(const Gpu& gpu, Stream stream, const std::vector<void*>& pointers, void* workspace,
                    const std::string& where) const {
  std::vector<int64_t> ids = parts_.ids();
  ids.insert(ids.end(), parts_.constant_ids().begin(), parts_.constant_ids().end());
  std::vector<void*> given = pointers;
  for (const float& value : parts_.constants()) given.push_back(const_cast<float*>(&value));
  Descriptor pack(kVariantPack, where);
  pack.set(kPackIds, ids)
      .set(kPackPointers, kVoidPointer, static_cast<int64_t>(given.size()), given.data())
      .set(kPackWorkspace, kVoidPointer, 1, &workspace)
      .finalize();
  Bound& mine = bound(gpu);
  const std::lock_guard<std::mutex> lock(mine.mutex);
  const Handle handle = mine.on(stream, where);
  check(functions().execute(handle, plan_->get(), pack.get()), where, "cudnnBackendExecute");
}

}  // namespace mx::cuda::dnn
