// SPDX-License-Identifier: Apache-2.0
//
// More operators with gradients, one for each form a gradient may have, and what backward pushed.
#pragma once

#include <algorithm>

#include "autograd.hpp"

namespace autograd {

// outputs[k] = (k + 2) · inputs[0], where it is asked for
inline int32_t multiples(const mx_plan*, const mx_kernel_context*, const mx_tensor* in, uint32_t,
                         const mx_tensor* out, const uint8_t* req, uint32_t n_outputs, mx_error*) {
  for (uint32_t k = 0; k < n_outputs; ++k) {
    CHECK((out[k].data == nullptr) == (req[k] == MX_REQ_NULL));
    for (int64_t i = 0; req[k] != MX_REQ_NULL && i < in->shape[0]; ++i) {
      store(out[k], i, static_cast<float>(k + 2) * static_cast<float*>(in->data)[i], req[k]);
    }
  }
  return MX_OK;
}

struct MoreOperators : Operators {
  MoreOperators() {
    library().put("multiples", multiples, {}, 2);
    // one step gives both gradients: 2 and 3 times what comes back
    library().put("pair", add, {{{"multiples", {out_grad(0)}}}, {step(0, 0), step(0, 1)}, {}, {}});
    // the same result of a step is the gradient of both inputs
    library().put("alike", add, {{{"_copy", {out_grad(0)}}}, {step(0), step(0)}, {}, {}});
    // the second input's gradient is what the first input's is computed from
    library().put("chained", multiply,
                  {{{"_copy", {out_grad(0)}}, {"elemwise_mul", {step(0), input(1)}}},
                   {step(1), step(0)},
                   {kNothing, kValue},
                   {}});
    library().put("stopped", copy, {{}, {zero()}, {}, {}});
    // 2·input, whatever comes back
    library().put("loss", copy, {{{"elemwise_add", {input(0), input(0)}}}, {step(0)}, {kValue}, {}});
    // what comes back times the result
    library().put("exponential", copy,
                  {{{"elemwise_mul", {out_grad(0), output(0)}}}, {step(0)}, {kNothing}, {kValue}});
    library().put("_unbroadcast", copy, {});
    library().put("broadcast", copy,
                  {{{"_unbroadcast", {out_grad(0), input(0)}}}, {step(0)}, {Keep::kShape}, {}});
    // two results, whose gradients are added
    library().put("halves", multiples,
                  {{{"elemwise_add", {out_grad(0), out_grad(1)}}}, {step(0)}, {}, {}}, 2);
  }
};

// How many operations of a name the engine got since the object was made.
class Pushed {
 public:
  explicit Pushed(fakes::Engine& engine) : engine_(engine) {
    engine.drain();
    first_ = engine.operations.size();
  }
  long operator()(const char* name) const {
    engine_.drain();
    return std::count_if(engine_.operations.begin() + first_, engine_.operations.end(),
                         [&](const mx_operation& each) { return std::string(each.name) == name; });
  }
  long all() const {
    engine_.drain();
    return static_cast<long>(engine_.operations.size()) - first_;
  }

 private:
  fakes::Engine& engine_;
  long first_;
};

}  // namespace autograd
