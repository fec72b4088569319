// SPDX-License-Identifier: Apache-2.0
//
// A convolution, or a gradient of one, as a graph of cuDNN, and the plan that cuDNN makes of it.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "cudnn.hpp"

namespace mx::cuda::dnn {

// What is computed: y from x and w, the gradient of x from y and w, or the gradient of w from x and y.
struct Convolution {
  enum Result : int { kY, kX, kW };
  Result result;
  int32_t dtype;                 // mx_dtype of all tensors: float32, float16 or bfloat16
  bool last;                     // channels are the last axis in memory
  bool bias;                     // is added to what is computed, along its channels
  bool add;                      // the result is added to what is there
  std::vector<int64_t> x, w, y;  // examples or filters, channels, space; filters have the channels of one group
  std::vector<int64_t> stride, dilate, pad;

  const std::vector<int64_t>& extents() const { return result == kY ? y : result == kX ? x : w; }
};

// How a plan is chosen.
struct Choice {
  size_t workspace;  // bytes at most
  bool converts;     // float32 may be multiplied as TensorFloat-32
};

// The ids of tensors in a graph.
enum Id : int64_t { kIdX = 1, kIdW, kIdY, kIdBias, kIdBetween };

// Addresses of tensors are multiples of this.
constexpr uintptr_t kAlignment = 16;
// That of the workspace is one of this.
constexpr uintptr_t kWorkspaceAlignment = 256;

// An execution plan of cuDNN.  Immutable.  Threads: any.
class ConvolutionPlan {
 public:
  // Of the first engine, in cuDNN's order, that adds up in a fixed order, in the precision that is chosen, and fits
  // into the workspace.  Throws mx::Error, MX_ERROR_UNSUPPORTED where there is none.
  //
  // `gpu`: whose context is current; or null, and `properties` describe a GPU (cuDNN's JSON): such a plan is not run.
  ConvolutionPlan(const Convolution& what, const Choice& choice, const Gpu* gpu, const std::string& properties);

  size_t workspace() const noexcept { return workspace_; }
  int64_t engine() const noexcept { return engine_; }
  int64_t passed_over() const noexcept { return passed_over_; }  // engines that cuDNN named before it
  const std::vector<int64_t>& ids() const noexcept { return ids_; }

  // Enqueues it.  `pointers` belong to `ids`; The GPU's context is current.
  void run(const Gpu& gpu, Stream stream, const std::vector<void*>& pointers, void* workspace,
           const std::string& where) const;

 private:
  // A descriptor that lives as long as the plan.
  Descriptor& keep(Kind kind);
  const Descriptor& tensor(int64_t id, const std::vector<int64_t>& extents);
  const Descriptor& graph(const Convolution& what, Handle handle);
  // Whether this engine serves, which then is the plan's.
  bool take(const Descriptor& config, const Convolution& what, const Choice& choice, Handle handle,
            const Descriptor* properties);
  bool allowed(const Descriptor& engine, const Convolution& what, const Choice& choice) const;

  const std::string where_;
  const int type_;
  const bool last_;
  std::deque<Descriptor> parts_;
  const Descriptor* plan_ = nullptr;
  std::vector<int64_t> ids_;
  size_t workspace_ = 0;
  int64_t engine_ = -1, passed_over_ = 0;
  std::string refusal_;  // of the last engine that did not serve
};

}  // namespace mx::cuda::dnn
