// SPDX-License-Identifier: Apache-2.0
//
// A stack of recurrent layers by cuDNN, or its gradient.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "library_plan.hpp"

namespace mx::cuda::dnn {

// data (steps, batch, inputs), and states (layers * directions, batch, units) before the first step and after the last
// one; the output is (steps, batch, directions * units).  All sequences have all steps, and nothing is dropped.
struct Rnn {
  enum Cell : int { kRelu = 0, kTanh = 1, kLstm = 2, kGru = 3 };  // cudnnRNNMode_t
  Cell cell;
  bool gradient;
  int32_t dtype;  // mx_dtype of all tensors: float32, float16 or bfloat16
  bool both;      // directions
  bool shows;     // the last states are outputs
  int32_t steps, batch, inputs, units, layers;

  int32_t ways() const noexcept { return both ? 2 : 1; }
  int64_t gates() const noexcept { return cell == kLstm ? 4 : cell == kGru ? 3 : 1; }
  bool has_cell_state() const noexcept { return cell == kLstm; }
};

// Tensors by their ids: data, parameters, state, of lstm its cell state; then the output and the last states that are
// shown; or, of a gradient, those of the output and of these, then the gradients of data, parameters and states.  The
// gradient of the parameters is added to what is there.  Results that are not wanted may be null.
//
// A gradient runs the layers again before, so that nothing is kept from a forward run.
class RnnPlan : public LibraryPlan {
 public:
  // `converts`: float32 may be multiplied as TensorFloat-32; the GPU's context is current.  Throws mx::Error,
  // MX_ERROR_UNSUPPORTED where cuDNN's parameters do not lie as ours do.
  RnnPlan(const Rnn& what, bool converts, const Gpu& gpu);

  const std::vector<int64_t>& ids() const noexcept override { return ids_; }
  bool omits() const noexcept override { return true; }
  void run(const Gpu& gpu, Stream stream, const std::vector<void*>& pointers, void* workspace,
           const std::string& where) const override;

 private:
  template <class Made> struct Destroy {
    Status (*function)(Made*);
    void operator()(Made* made) const { function(made); }
  };
  template <class Made> using Owned = std::unique_ptr<Made, Destroy<Made>>;
  struct Places;

  Owned<RnnTag> described(bool converts) const;
  Owned<RnnDataTag> data(int64_t width) const;
  Owned<TensorTag> states() const;
  void check_parameters(Handle handle) const;
  void forward(Handle handle, const Places& places, const std::string& where) const;
  void backward(Handle handle, const Places& places, const std::string& where) const;
  Places placed(const std::vector<void*>& pointers, void* workspace) const;

  const Rnn what_;
  Owned<RnnTag> rnn_;
  Owned<RnnDataTag> x_, y_;
  Owned<TensorTag> state_;
  std::vector<int64_t> ids_;
  size_t parameters_ = 0, work_ = 0, reserve_ = 0, x_bytes_ = 0, y_bytes_ = 0;
};

}  // namespace mx::cuda::dnn
