// SPDX-License-Identifier: Apache-2.0
#include "attention_graph.hpp"

#include <vector>

#include "mx_core/failure.hpp"

namespace mx::cuda::dnn {
namespace {

constexpr int64_t kScaleId = 5;
constexpr char kName[] = "cuDNN attention";

std::vector<Pointer> operations_of(const Attention& what, Parts& parts) {
  for (const int64_t n : {what.batch, what.heads, what.queries, what.keys, what.depth, what.width}) {
    if (n <= 0) {
      throw Error(MX_ERROR_VALUE, std::string("[") + kName + "] extents: expected above 0, got " + std::to_string(n));
    }
  }
  const int type = type_of(what.dtype);
  // (examples, heads, rows, depth), of which the heads lie side by side
  const auto tensor = [&](int64_t id, int64_t rows, int64_t depth) -> const Descriptor& {
    const int64_t row = what.heads * depth;
    return parts.tensor(id, type, {what.batch, what.heads, rows, depth}, {rows * row, depth, row, 1});
  };
  Descriptor& made = parts.keep(kAttentionOperation);
  made.set(kAttentionQuery, tensor(1, what.queries, what.depth))
      .set(kAttentionKey, tensor(2, what.keys, what.depth))
      .set(kAttentionValue, tensor(3, what.keys, what.width))
      .set(kAttentionOutput, tensor(4, what.queries, what.width))
      .set(kAttentionScale, parts.constant(kScaleId, what.scale, 4))
      .finalize();
  return {made.get()};
}

}  // namespace

AttentionPlan::AttentionPlan(const Attention& what, const Choice& choice, const Gpu* gpu, const std::string& properties)
    : GraphPlan(kName, what.dtype, choice, gpu, properties,
                [&what](Parts& parts) { return operations_of(what, parts); }) {}

}  // namespace mx::cuda::dnn
