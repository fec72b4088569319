// SPDX-License-Identifier: Apache-2.0
#include "convolution_graph.hpp"

#include <algorithm>

#include "mx_core/failure.hpp"

namespace mx::cuda::dnn {
namespace {

const char* name_of(Convolution::Result result) {
  return result == Convolution::kY ? "cuDNN convolution" : result == Convolution::kX ? "cuDNN gradient of data"
                                                                                    : "cuDNN gradient of weights";
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
  if (what.epilogue() && what.add) {
    throw Error(MX_ERROR_UNSUPPORTED, "[" + where + "] a result with a bias is not added to what is there");
  }
}

std::vector<Pointer> operations_of(const Convolution& what, Parts& parts) {
  check_extents(what, name_of(what.result));
  Descriptor& how = parts.keep(kConvolution);
  how.set_choice(kConvolutionPrecision, kDataTypeType, kFloat32)
      .set_choice(kConvolutionMode, kConvolutionModeType, kCrossCorrelation)
      .set_number(kConvolutionAxes, static_cast<int64_t>(what.stride.size()))
      .set(kConvolutionPrePaddings, what.pad)
      .set(kConvolutionPostPaddings, what.pad)
      .set(kConvolutionStrides, what.stride)
      .set(kConvolutionDilations, what.dilate)
      .finalize();
  const int type = type_of(what.dtype);
  const auto tensor = [&](Convolution::Result which, int64_t id, const auto& extents) -> const Descriptor& {
    if (what.epilogue() && which == what.result) return parts.between(kIdBetween, extents, what.last);
    return parts.tensor(id, type, extents, what.last);
  };
  const Descriptor& x = tensor(Convolution::kX, kIdX, what.x);
  const Descriptor& w = tensor(Convolution::kW, kIdW, what.w);
  const Descriptor& y = tensor(Convolution::kY, kIdY, what.y);
  const float one = 1, beta = what.add ? 1 : 0;
  std::vector<Pointer> operations;
  const auto operation = [&](Kind kind, Attribute alpha, Attribute beta_name, Attribute convolution) -> Descriptor& {
    Descriptor& made = parts.keep(kind);
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
  const int64_t made_id = what.result == Convolution::kY ? kIdY : what.result == Convolution::kX ? kIdX : kIdW;
  const Descriptor* last = what.result == Convolution::kY ? &y : what.result == Convolution::kX ? &x : &w;
  int64_t between = kIdBetween;
  // Adds `other`, or keeps the positive part where it is null; `ends`: nothing follows.
  const auto follow = [&](int mode, const Descriptor* other, bool ends) {
    const Descriptor& result = ends ? parts.tensor(made_id, type, what.extents(), what.last)
                                    : parts.between(++between, what.extents(), what.last);
    operations.push_back(parts.pointwise(mode, *last, other, result));
    last = &result;
  };
  if (what.bias) {
    std::vector<int64_t> along(what.extents().size(), 1);
    along[1] = what.extents()[1];
    follow(kAdd, &parts.tensor(kIdBias, type, along, what.last), !what.residual && !what.relu);
  }
  if (what.residual) follow(kAdd, &parts.tensor(kIdResidual, type, what.extents(), what.last), !what.relu);
  if (what.relu) follow(kRelu, nullptr, true);
  return operations;
}

}  // namespace

ConvolutionPlan::ConvolutionPlan(const Convolution& what, const Choice& choice, const Gpu* gpu,
                                 const std::string& properties)
    : GraphPlan(name_of(what.result), what.dtype, choice, gpu, properties,
                [&what](Parts& parts) { return operations_of(what, parts); }) {}

}  // namespace mx::cuda::dnn
