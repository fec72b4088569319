// SPDX-License-Identifier: Apache-2.0
//
// Products of multi-head attention on interleaved projections (L, N, H P D): for every head its P
// parts.  All are batches of N H matrices that lie strided in memory.
#include <cmath>

#include "attention/attention.hpp"
#include "attention/head_products.hpp"
#include "common/shape.hpp"

namespace mx::cpu {
namespace {

// A projection, as an input or an output.
struct Projection {
  int64_t length, batch, heads, parts, size;
  int32_t dtype;

  Projection(const Spec& spec, int64_t heads_, int64_t parts_)
      : length(extent(spec.shape, 0)), batch(extent(spec.shape, 1)), heads(heads_), parts(parts_),
        size(extent(spec.shape, 2) / std::max<int64_t>(heads_ * parts_, 1)), dtype(spec.dtype) {
    if (spec.shape.size() != 3 || heads < 1 || parts < 1 || size * heads * parts != spec.shape[2]) throw Unsupported{};
  }
};

// (N H, L, D) of one part.
Matrices part(const Projection& p, int64_t which) {
  const int64_t step = p.parts * p.size;
  return {p.batch * p.heads, p.length, p.size, step, p.batch * p.heads * step, 1, which * p.size};
}

// Matrices one after the other.
Matrices stacked(int64_t count, int64_t rows, int64_t columns) {
  return {count, rows, columns, rows * columns, columns, 1};
}

// Zeros in the parts [first, last) of an output; nothing where there are none.
std::optional<HeadProducts::Zeros> zeros(int out, const Projection& p, int64_t first, int64_t last) {
  if (first == last) return std::nullopt;
  return HeadProducts::Zeros{out, p.length * p.batch * p.heads, p.parts, p.size, first, last};
}

Cost cost(const Projection& p, int64_t queries, double products) {
  const double all = static_cast<double>(p.batch * p.heads * queries) * static_cast<double>(p.length);
  return {products * 2 * all * static_cast<double>(p.size), 4 * all};
}

// Where queries and keys lie among the inputs from `first` on, and in which part.
struct Scores {
  Projection queries, keys;
  int keys_at;  // 0: queries and keys are parts of one projection
  int64_t key_part;
  double scale;

  Scores(const std::vector<Spec>& specs, size_t first, int64_t heads, int64_t parts)
      : queries(at(specs, first), heads, parts == 3 ? 3 : 1),
        keys(at(specs, parts == 3 ? first : first + 1), heads, parts), keys_at(parts == 3 ? 0 : 1),
        key_part(parts == 3 ? 1 : 0), scale(1 / std::sqrt(static_cast<double>(queries.size))) {
    if (queries.size != keys.size || queries.batch != keys.batch || queries.dtype != keys.dtype) throw Unsupported{};
  }
  static const Spec& at(const std::vector<Spec>& specs, size_t i) {
    if (i >= specs.size()) throw Unsupported{};
    return specs[i];
  }
  // (N H, queries, keys)
  Matrices matrix(const Spec& spec) const {
    const Dims shape = {queries.batch * queries.heads, queries.length, keys.length};
    if (spec.shape != shape || spec.dtype != queries.dtype) throw Unsupported{};
    return stacked(shape[0], shape[1], shape[2]);
  }
};

struct Values {
  Projection values;
  int64_t part;

  Values(const std::vector<Spec>& specs, size_t first, int64_t heads, int64_t parts)
      : values(Scores::at(specs, first), heads, parts), part(parts - 1) {}
  // (N H, queries, keys)
  Matrices attention(const Spec& spec) const {
    if (spec.shape.size() != 3 || spec.shape[0] != values.batch * values.heads || spec.shape[2] != values.length ||
        spec.dtype != values.dtype)
      throw Unsupported{};
    return stacked(spec.shape[0], spec.shape[1], spec.shape[2]);
  }
  // The result's heads side by side, as a projection with one part.
  Projection joined(const Spec& spec, int64_t queries) const {
    const Projection made(spec, values.heads, 1);
    if (made.length != queries || made.batch != values.batch || made.size != values.size || made.dtype != values.dtype)
      throw Unsupported{};
    return made;
  }
};

// Gradients are like the inputs after the first.
void require_like_inputs(const Signature& s) {
  for (size_t i = 0; i < s.outputs.size(); ++i)
    if (s.outputs[i].shape != s.inputs[1 + i].shape || s.outputs[i].dtype != s.inputs[1 + i].dtype) throw Unsupported{};
}

}  // namespace

PlanPtr attention_scores(const Signature& s, const AttentionOptions& o) {
  counted(s, o.parts == 3 ? 1 : 2, 1);
  const Scores v(s.inputs, 0, o.heads, o.parts);
  const Matrices q = part(v.queries, 0), k = part(v.keys, v.key_part);
  return head_products(s, cost(v.keys, v.queries.length, 1),
                       {{{0, q, v.keys_at, k.transposed(), 0, v.matrix(s.outputs[0]), v.scale}}, std::nullopt});
}

PlanPtr attention_scores_backward(const Signature& s, const AttentionOptions& o) {
  const size_t n = o.parts == 3 ? 1 : 2;
  counted(s, 1 + n, n);
  const Scores v(s.inputs, 1, o.heads, o.parts);
  const Matrices head = v.matrix(s.inputs[0]), q = part(v.queries, 0), k = part(v.keys, v.key_part);
  require_like_inputs(s);
  return head_products(s, cost(v.keys, v.queries.length, 2),
                       {{{0, head, 1 + v.keys_at, k, 0, q, v.scale},
                         {0, head.transposed(), 1, q, v.keys_at, k, v.scale}},
                        zeros(v.keys_at, v.keys, o.parts - 1, o.parts)});
}

PlanPtr attention_values(const Signature& s, const AttentionOptions& o) {
  counted(s, 2, 1);
  const Values v(s.inputs, 0, o.heads, o.parts);
  const Matrices attention = v.attention(s.inputs[1]);
  const int64_t queries = s.inputs[1].shape[1];
  return head_products(s, cost(v.values, queries, 1),
                       {{{1, attention, 0, part(v.values, v.part), 0, part(v.joined(s.outputs[0], queries), 0), 1}},
                        std::nullopt});
}

PlanPtr attention_values_backward(const Signature& s, const AttentionOptions& o) {
  counted(s, 3, 2);
  const Values v(s.inputs, 1, o.heads, o.parts);
  const Matrices attention = v.attention(s.inputs[2]);
  const int64_t queries = s.inputs[2].shape[1];
  const Matrices head = part(v.joined(s.inputs[0], queries), 0), values = part(v.values, v.part);
  require_like_inputs(s);
  return head_products(s, cost(v.values, queries, 2),
                       {{{2, attention.transposed(), 0, head, 0, values, 1},
                         {0, head, 1, values.transposed(), 1, attention, 1}},
                        zeros(0, v.values, 0, v.part)});
}

}  // namespace mx::cpu
