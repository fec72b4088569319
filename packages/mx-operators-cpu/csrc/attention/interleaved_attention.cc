// SPDX-License-Identifier: Apache-2.0
//
// Products of multi-head attention on interleaved projections (L, N, H P D): for every head its P
// parts.  All are batches of N H matrices that lie strided in memory.
#include <cmath>
#include <cstring>

#include "attention/attention.hpp"
#include "onednn/primitive_program.hpp"

namespace mx::cpu {
namespace {

// A projection, as an input or an output.
struct Projection {
  int64_t length, batch, heads, parts, size;
  DataType type;

  Projection(const Spec& spec, int64_t heads_, int64_t parts_)
      : length(extent(spec.shape, 0)), batch(extent(spec.shape, 1)), heads(heads_), parts(parts_),
        size(extent(spec.shape, 2) / std::max<int64_t>(heads_ * parts_, 1)), type(data_type(spec)) {
    if (spec.shape.size() != 3 || heads < 1 || parts < 1 || size * heads * parts != spec.shape[2]) throw Unsupported{};
  }
};

// Matrices in an argument.
struct Matrices {
  MemoryDesc desc;
  size_t offset = 0;  // bytes
  Matrices transposed() const { return {desc.permute_axes({0, 2, 1}), offset}; }
};

// (N H, L, D) of one part.
Matrices part(const Projection& p, int64_t which) {
  const int64_t step = p.parts * p.size, row = p.batch * p.heads * step;
  const size_t item = dnnl::memory::data_type_size(p.type);
  return {MemoryDesc({p.batch * p.heads, p.length, p.size}, p.type, Dims{step, row, 1}),
          static_cast<size_t>(which * p.size) * item};
}

// out = scale * a * b
void product(ProgramBuilder& builder, int a, const Matrices& x, int b, const Matrices& y, int out, const Matrices& z,
             double scale) {
  dnnl::primitive_attr attributes = ProgramBuilder::attributes();
  if (scale != 1) {
    dnnl::post_ops after;
    after.append_eltwise(dnnl::algorithm::eltwise_linear, static_cast<float>(scale), 0);
    attributes.set_post_ops(after);
  }
  builder.step(dnnl::matmul::primitive_desc(cpu_engine(), x.desc, y.desc, z.desc, attributes),
               {{DNNL_ARG_SRC, builder.input(a, x.desc, x.offset)},
                {DNNL_ARG_WEIGHTS, builder.input(b, y.desc, y.offset)},
                {DNNL_ARG_DST, builder.output(out, z.desc, z.offset)}},
               needed_by(out));
}

// Zeros in the parts [first, last) of an output.
void clear(ProgramBuilder& builder, int out, const Spec& spec, const Projection& p, int64_t first, int64_t last) {
  if (first == last) return;
  const Slot slot = builder.output(out, plain(spec.shape, data_type(spec)));
  const auto item = static_cast<int64_t>(dnnl::memory::data_type_size(data_type(spec)));
  builder.host(
      [=](void* const* slots, const Call&) {
        auto* data = static_cast<char*>(slots[slot]);
        parallel_shares(p.length * p.batch * p.heads, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i)
            std::memset(data + (i * p.parts + first) * p.size * item, 0,
                        static_cast<size_t>((last - first) * p.size * item));
        });
      },
      {slot}, needed_by(out));
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
    if (queries.size != keys.size || queries.batch != keys.batch || queries.type != keys.type) throw Unsupported{};
  }
  static const Spec& at(const std::vector<Spec>& specs, size_t i) {
    if (i >= specs.size()) throw Unsupported{};
    return specs[i];
  }
  // (N H, queries, keys)
  Matrices matrix(const Spec& spec) const {
    const Dims shape = {queries.batch * queries.heads, queries.length, keys.length};
    if (spec.shape != shape || data_type(spec) != queries.type) throw Unsupported{};
    return {plain(shape, data_type(spec))};
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
        data_type(spec) != values.type)
      throw Unsupported{};
    return {plain(spec.shape, data_type(spec))};
  }
  // The result's heads side by side, as a projection with one part.
  Projection joined(const Spec& spec, int64_t queries) const {
    const Projection made(spec, values.heads, 1);
    if (made.length != queries || made.batch != values.batch || made.size != values.size || made.type != values.type)
      throw Unsupported{};
    return made;
  }
};

}  // namespace

PlanPtr attention_scores(const Signature& s, const AttentionOptions& o) {
  counted(s, o.parts == 3 ? 1 : 2, 1);
  const Scores v(s.inputs, 0, o.heads, o.parts);
  ProgramBuilder builder(s, cost(v.keys, v.queries.length, 1));
  product(builder, 0, part(v.queries, 0), v.keys_at, part(v.keys, v.key_part).transposed(), 0, v.matrix(s.outputs[0]), v.scale);
  return builder.build();
}

PlanPtr attention_scores_backward(const Signature& s, const AttentionOptions& o) {
  const size_t n = o.parts == 3 ? 1 : 2;
  counted(s, 1 + n, n);
  const Scores v(s.inputs, 1, o.heads, o.parts);
  const Matrices head = v.matrix(s.inputs[0]);
  for (size_t i = 0; i < n; ++i)
    if (s.outputs[i].shape != s.inputs[1 + i].shape || data_type(s.outputs[i]) != data_type(s.inputs[1 + i])) throw Unsupported{};
  ProgramBuilder builder(s, cost(v.keys, v.queries.length, 2));
  const Matrices q = part(v.queries, 0), k = part(v.keys, v.key_part);
  product(builder, 0, head, 1 + v.keys_at, k, 0, q, v.scale);
  product(builder, 0, head.transposed(), 1, q, v.keys_at, k, v.scale);
  clear(builder, v.keys_at, s.outputs[static_cast<size_t>(v.keys_at)], v.keys, o.parts - 1, o.parts);
  return builder.build();
}

PlanPtr attention_values(const Signature& s, const AttentionOptions& o) {
  counted(s, 2, 1);
  const Values v(s.inputs, 0, o.heads, o.parts);
  const Matrices attention = v.attention(s.inputs[1]);
  const int64_t queries = s.inputs[1].shape[1];
  ProgramBuilder builder(s, cost(v.values, queries, 1));
  product(builder, 1, attention, 0, part(v.values, v.part), 0, part(v.joined(s.outputs[0], queries), 0), 1);
  return builder.build();
}

PlanPtr attention_values_backward(const Signature& s, const AttentionOptions& o) {
  counted(s, 3, 2);
  const Values v(s.inputs, 1, o.heads, o.parts);
  const Matrices attention = v.attention(s.inputs[2]);
  const int64_t queries = s.inputs[2].shape[1];
  const Matrices head = part(v.joined(s.inputs[0], queries), 0), values = part(v.values, v.part);
  for (size_t i = 0; i < 2; ++i)
    if (s.outputs[i].shape != s.inputs[1 + i].shape || data_type(s.outputs[i]) != data_type(s.inputs[1 + i])) throw Unsupported{};
  ProgramBuilder builder(s, cost(v.values, queries, 2));
  product(builder, 2, attention.transposed(), 0, head, 0, values, 1);
  product(builder, 0, head, 1, values.transposed(), 1, attention, 1);
  clear(builder, 0, s.outputs[0], v.values, 0, v.part);
  return builder.build();
}

}  // namespace mx::cpu
