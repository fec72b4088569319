// SPDX-License-Identifier: Apache-2.0
#include "convolution_graph.hpp"

#include <algorithm>
#include <array>
#include <mutex>

#include "mx_core/failure.hpp"

namespace mx::cuda::dnn {
namespace {

constexpr int64_t kNotes = 16;  // room for all there are

int type_of(int32_t dtype) {
  switch (dtype) {
    case MX_FLOAT32: return kFloat32;
    case MX_FLOAT16: return kFloat16;
    case MX_BFLOAT16: return kBFloat16;
    default: throw Error(MX_ERROR_UNSUPPORTED, "[gpu] cuDNN: type code " + std::to_string(dtype));
  }
}

const char* name_of(Convolution::Result result) {
  return result == Convolution::kY ? "cuDNN convolution" : result == Convolution::kX ? "cuDNN gradient of data"
                                                                                    : "cuDNN gradient of weights";
}

// Elements from one index to the next along each axis of (examples, channels, space) in memory.
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

void check_extents(const Convolution& what, const std::string& where) {
  const size_t axes = what.stride.size();
  const auto malformed = [axes](const std::vector<int64_t>& extents) {
    return extents.size() != axes + 2 || std::any_of(extents.begin(), extents.end(), [](int64_t n) { return n <= 0; });
  };
  if (axes < 2 || axes > 3 || what.dilate.size() != axes || what.pad.size() != axes || malformed(what.x) ||
      malformed(what.w) || malformed(what.y)) {
    throw Error(MX_ERROR_VALUE, "[" + where + "] expected two or three spatial axes, and extents above 0");
  }
  if (what.bias && what.add) {
    throw Error(MX_ERROR_UNSUPPORTED, "[" + where + "] a result with a bias is not added to what is there");
  }
}

}  // namespace

ConvolutionPlan::ConvolutionPlan(const Convolution& what, const Choice& choice, const Gpu* gpu,
                                 const std::string& properties)
    : where_(name_of(what.result)), type_(type_of(what.dtype)), last_(what.last) {
  check_extents(what, where_);
  Handle handle = nullptr;
  std::unique_lock<std::mutex> lock;  // cuDNN prepares with the handle too
  const Descriptor* described = nullptr;
  if (gpu != nullptr) {
    Bound& mine = bound(*gpu);
    lock = std::unique_lock<std::mutex>(mine.mutex);
    handle = mine.made(where_);
  } else {
    const auto bytes = static_cast<int64_t>(properties.size() + 1);
    described = &keep(kProperties).set(kPropertiesText, kChar, bytes, properties.c_str()).finalize();
  }
  const Descriptor& whole = graph(what, handle);
  for (const int mode : {kModeA, kModeFallback}) {
    Descriptor& heuristics = keep(kHeuristics);
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
      Descriptor& config = parts_.emplace_back(std::move(configs[static_cast<size_t>(i)]));
      if (take(config, what, choice, handle, described)) return;
      parts_.pop_back();
      ++passed_over_;
    }
  }
  throw Error(MX_ERROR_UNSUPPORTED, "[" + where_ + "] no engine serves (of " + std::to_string(passed_over_) + ")" +
                                        (refusal_.empty() ? "" : ": " + refusal_));
}

Descriptor& ConvolutionPlan::keep(Kind kind) { return parts_.emplace_back(kind, where_); }

const Descriptor& ConvolutionPlan::tensor(int64_t id, const std::vector<int64_t>& extents) {
  const bool is_virtual = id == kIdBetween;
  Descriptor& made = keep(kTensor);
  made.set_choice(kTensorType, kDataTypeType, is_virtual ? static_cast<int>(kFloat32) : type_)
      .set(kTensorExtents, extents)
      .set(kTensorStrides, strides_of(extents, last_))
      .set_number(kTensorId, id)
      .set_number(kTensorAlignment, static_cast<int64_t>(kAlignment));
  if (is_virtual) {
    made.set(kTensorVirtual, kBool, 1, &is_virtual);
  } else {
    ids_.push_back(id);
  }
  return made.finalize();
}

const Descriptor& ConvolutionPlan::graph(const Convolution& what, Handle handle) {
  Descriptor& how = keep(kConvolution);
  how.set_choice(kConvolutionPrecision, kDataTypeType, kFloat32)
      .set_choice(kConvolutionMode, kConvolutionModeType, kCrossCorrelation)
      .set_number(kConvolutionAxes, static_cast<int64_t>(what.stride.size()))
      .set(kConvolutionPrePaddings, what.pad)
      .set(kConvolutionPostPaddings, what.pad)
      .set(kConvolutionStrides, what.stride)
      .set(kConvolutionDilations, what.dilate)
      .finalize();
  const auto id = [&](Convolution::Result which, int64_t own) {
    return what.bias && which == what.result ? static_cast<int64_t>(kIdBetween) : own;
  };
  const Descriptor& x = tensor(id(Convolution::kX, kIdX), what.x);
  const Descriptor& w = tensor(id(Convolution::kW, kIdW), what.w);
  const Descriptor& y = tensor(id(Convolution::kY, kIdY), what.y);
  const float one = 1, beta = what.add ? 1 : 0;
  std::vector<Pointer> operations;
  const auto operation = [&](Kind kind, Attribute alpha, Attribute beta_name, Attribute convolution) -> Descriptor& {
    Descriptor& made = keep(kind);
    operations.push_back(made.get());
    return made.set(alpha, kFloat, 1, &one).set(beta_name, kFloat, 1, &beta).set(convolution, how);
  };
  switch (what.result) {
    case Convolution::kY:
      operation(kForwardOperation, kForwardAlpha, kForwardBeta, kForwardConvolution)
          .set(kForwardW, w).set(kForwardX, x).set(kForwardY, y).finalize();
      break;
    case Convolution::kX:
      operation(kDataOperation, kDataAlpha, kDataBeta, kDataConvolution)
          .set(kDataW, w).set(kDataX, x).set(kDataY, y).finalize();
      break;
    case Convolution::kW:
      operation(kWeightsOperation, kWeightsAlpha, kWeightsBeta, kWeightsConvolution)
          .set(kWeightsW, w).set(kWeightsX, x).set(kWeightsY, y).finalize();
      break;
  }
  if (what.bias) {
    Descriptor& sum = keep(kPointwise);
    sum.set_choice(kPointwiseMode, kPointwiseModeType, kAdd)
        .set_choice(kPointwisePrecision, kDataTypeType, kFloat32)
        .finalize();
    std::vector<int64_t> along(what.extents().size(), 1);
    along[1] = what.extents()[1];
    const Descriptor& bias = tensor(kIdBias, along);
    const Descriptor& result = tensor(what.result == Convolution::kY ? kIdY : kIdX, what.extents());
    Descriptor& made = keep(kPointwiseOperation);
    operations.push_back(made.get());
    made.set(kPointwiseDescriptor, sum)
        .set(kPointwiseX, what.result == Convolution::kY ? y : x)
        .set(kPointwiseB, bias)
        .set(kPointwiseY, result)
        .finalize();
  }
  Descriptor& whole = keep(kGraph);
  if (handle != nullptr) whole.set(kGraphHandle, kHandleType, 1, &handle);
  whole.set(kGraphOperations, kDescriptor, static_cast<int64_t>(operations.size()), operations.data());
  return whole.finalize();
}

bool ConvolutionPlan::allowed(const Descriptor& engine, const Convolution& what, const Choice& choice) const {
  std::array<int, kNotes> notes{};
  int64_t n = 0;
  check(functions().get(engine.get(), kEngineNumericalNotes, kNumericalNoteType, kNotes, &n, notes.data()), where_,
        "cudnnBackendGetAttribute");
  return std::none_of(notes.begin(), notes.begin() + std::min(n, kNotes), [&](int note) {
    const bool converted = note == kTensorCore || note == kDownConverts;
    return note == kReducedReduction || note == kNondeterministic ||
           (converted && what.dtype == MX_FLOAT32 && !choice.converts);
  });
}

bool ConvolutionPlan::take(const Descriptor& config, const Convolution& what, const Choice& choice, Handle handle,
                           const Descriptor* properties) {
  Descriptor engine(kEngine, where_);
  Pointer place = engine.get();
  int64_t n = 0;
  check(functions().get(config.get(), kConfigEngine, kDescriptor, 1, &n, &place), where_, "cudnnBackendGetAttribute");
  if (!allowed(engine, what, choice)) {
    refusal_ = "engine " + std::to_string(engine.number(kEngineIndex)) + " rounds, or adds up in no fixed order";
    return false;
  }
  Descriptor made(kPlan, where_);
  if (handle != nullptr) made.set(kPlanHandle, kHandleType, 1, &handle);
  if (properties != nullptr) made.set(kPlanProperties, *properties);
  made.set(kPlanConfig, config);
  const Status status = made.try_finalize();
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
  plan_ = &parts_.emplace_back(std::move(made));
  return true;
}

void ConvolutionPlan::run(const Gpu& gpu, Stream stream, const std::vector<void*>& pointers, void* workspace,
                          const std::string& where) const {
  Descriptor pack(kVariantPack, where);
  pack.set(kPackIds, ids_)
      .set(kPackPointers, kVoidPointer, static_cast<int64_t>(pointers.size()), pointers.data())
      .set(kPackWorkspace, kVoidPointer, 1, &workspace)
      .finalize();
  Bound& mine = bound(gpu);
  const std::lock_guard<std::mutex> lock(mine.mutex);
  const Handle handle = mine.made(where);
  if (mine.stream != stream) {
    check(functions().set_stream(handle, stream), where, "cudnnSetStream");
    mine.stream = stream;
  }
  check(functions().execute(handle, plan_->get(), pack.get()), where, "cudnnBackendExecute");
}

}  // namespace mx::cuda::dnn
