// SPDX-License-Identifier: Apache-2.0
//
// The kernels as Python functions: (inputs, outputs, parameters...) -> plan capsule.  inputs and outputs are
// sequences of (shape, type code).  Where there is no kernel for a signature they return None or raise NoKernelError.
// Every subject binds its own, in its bindings_*.cc.
#include <string>

#include "common/bindings_common.hpp"
#include "mx_core/pybind_holder.hpp"
#include "onednn/bindings_primitives.hpp"
#include "simd/loops.hpp"

namespace mx::cpu {

void bind_attention(py::module_& module);
void bind_boxes(py::module_& module);
void bind_composite(py::module_& module);
void bind_convolution(py::module_& module);
void bind_correlation(py::module_& module);
void bind_elementwise(py::module_& module);
void bind_fused_layer(py::module_& module);
void bind_image(py::module_& module);
void bind_indexing(py::module_& module);
void bind_loss(py::module_& module);
void bind_matmul(py::module_& module);
void bind_matmul_loops(py::module_& module);
void bind_norm(py::module_& module);
void bind_optimizer(py::module_& module);
void bind_pooling(py::module_& module);
void bind_random(py::module_& module);
void bind_reduce(py::module_& module);
void bind_regions(py::module_& module);
void bind_rnn(py::module_& module);
void bind_sampler(py::module_& module);
void bind_softmax(py::module_& module);
void bind_sort(py::module_& module);
void bind_windows(py::module_& module);

}  // namespace mx::cpu

PYBIND11_MODULE(_native, module, pybind11::mod_gil_not_used()) {
  module.doc() = "CPU kernels: plans (capsule mx.plan.v1) from signatures and parameters.";
  py::register_local_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const mx::Error& error) {
      mx::raise_status(error.code(), error.what());
    }
  });
  module.def("instruction_set", [] { return std::string(mx::cpu::loops().name); },
             "Name of the loops this CPU runs: baseline, avx2 or avx512.");
  module.def("threads", [] { return mx::cpu::team_size(); }, "Threads of the calling thread's team.");
  module.def(
      "onednn_version",
      [] {
        const dnnl_version_t* v = dnnl_version();
        return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
      },
      "Version of the oneDNN library that is loaded.");
  mx::cpu::bind_attention(module);
  mx::cpu::bind_boxes(module);
  mx::cpu::bind_composite(module);
  mx::cpu::bind_convolution(module);
  mx::cpu::bind_correlation(module);
  mx::cpu::bind_elementwise(module);
  mx::cpu::bind_fused_layer(module);
  mx::cpu::bind_image(module);
  mx::cpu::bind_indexing(module);
  mx::cpu::bind_loss(module);
  mx::cpu::bind_matmul(module);
  mx::cpu::bind_matmul_loops(module);
  mx::cpu::bind_norm(module);
  mx::cpu::bind_optimizer(module);
  mx::cpu::bind_pooling(module);
  mx::cpu::bind_random(module);
  mx::cpu::bind_reduce(module);
  mx::cpu::bind_regions(module);
  mx::cpu::bind_rnn(module);
  mx::cpu::bind_sampler(module);
  mx::cpu::bind_softmax(module);
  mx::cpu::bind_sort(module);
  mx::cpu::bind_windows(module);
  mx::refuse_uninitialised(module);
}
