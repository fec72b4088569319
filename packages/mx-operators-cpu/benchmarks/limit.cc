// SPDX-License-Identifier: Apache-2.0
//
// The bare speed of oneDNN on this machine: primitives in the layouts they prefer, without the
// reorders a plain tensor needs.  Compiled and called by limits.py.
#include <algorithm>
#include <chrono>
#include <vector>

#include "oneapi/dnnl/dnnl.hpp"

namespace {

using dnnl::memory;

memory::desc any(const memory::dims& dims) { return {dims, memory::data_type::f32, memory::format_tag::any}; }

memory filled(const memory::desc& desc, const dnnl::engine& engine) {
  memory m(desc, engine);
  std::fill_n(static_cast<float*>(m.get_data_handle()), desc.get_size() / sizeof(float), 0.5f);
  return m;
}

double best_of(const dnnl::primitive& p, const std::unordered_map<int, memory>& arguments, dnnl::stream& stream,
               int repeats) {
  double best = 1e30;
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    p.execute(stream, arguments);
    stream.wait();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

}  // namespace

// Seconds of the forward, data-gradient and weight-gradient primitives of one 2-D convolution.
extern "C" void convolution_limit(int64_t n, int64_t c, int64_t size, int64_t filters, int64_t kernel, int64_t stride,
                                  int64_t pad, int repeats, double* seconds) {
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const int64_t out = (size + 2 * pad - kernel) / stride + 1;
  const auto x = any({n, c, size, size}), w = any({filters, c, kernel, kernel}), y = any({n, filters, out, out});
  const memory::dims s = {stride, stride}, p = {pad, pad};
  const auto direct = dnnl::algorithm::convolution_direct;
  const dnnl::convolution_forward::primitive_desc forward(engine, dnnl::prop_kind::forward_training, direct, x, w, y, s,
                                                          p, p);
  const dnnl::convolution_backward_data::primitive_desc data(engine, direct, x, w, y, s, p, p, forward);
  const dnnl::convolution_backward_weights::primitive_desc weights(engine, direct, x, w, y, s, p, p, forward);
  seconds[0] = best_of(dnnl::convolution_forward(forward),
                       {{DNNL_ARG_SRC, filled(forward.src_desc(), engine)},
                        {DNNL_ARG_WEIGHTS, filled(forward.weights_desc(), engine)},
                        {DNNL_ARG_DST, filled(forward.dst_desc(), engine)}},
                       stream, repeats);
  seconds[1] = best_of(dnnl::convolution_backward_data(data),
                       {{DNNL_ARG_DIFF_DST, filled(data.diff_dst_desc(), engine)},
                        {DNNL_ARG_WEIGHTS, filled(data.weights_desc(), engine)},
                        {DNNL_ARG_DIFF_SRC, filled(data.diff_src_desc(), engine)}},
                       stream, repeats);
  seconds[2] = best_of(dnnl::convolution_backward_weights(weights),
                       {{DNNL_ARG_DIFF_DST, filled(weights.diff_dst_desc(), engine)},
                        {DNNL_ARG_SRC, filled(weights.src_desc(), engine)},
                        {DNNL_ARG_DIFF_WEIGHTS, filled(weights.diff_weights_desc(), engine)}},
                       stream, repeats);
}

// Seconds of (m, k) x (k, n) with a packed right-hand side.
extern "C" double product_limit(int64_t m, int64_t k, int64_t n, int repeats) {
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const memory::desc a({m, k}, memory::data_type::f32, memory::format_tag::ab);
  const memory::desc c({m, n}, memory::data_type::f32, memory::format_tag::ab);
  const dnnl::matmul::primitive_desc desc(engine, a, any({k, n}), c);
  return best_of(dnnl::matmul(desc),
                 {{DNNL_ARG_SRC, filled(a, engine)},
                  {DNNL_ARG_WEIGHTS, filled(desc.weights_desc(), engine)},
                  {DNNL_ARG_DST, filled(c, engine)}},
                 stream, repeats);
}
