// SPDX-License-Identifier: Apache-2.0
#include "onednn/engine.hpp"

namespace mx::cpu {

const dnnl::engine& cpu_engine() {
  static const auto* engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

}  // namespace mx::cpu
