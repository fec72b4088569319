// SPDX-License-Identifier: Apache-2.0
//
// softmax(scale Q K^T) V for every head, block of queries by block of queries, so that scores stay in
// cache (as in Dao et al., FlashAttention, 2022, with whole rows).  Tensors hold floats, doubles or
// BFloat16, whose scores are float32.
#include <memory>
#include <optional>
#include <type_traits>

#include "onednn/engine.hpp"
#include "common/bfloat16.hpp"
#include "common/elements.hpp"
#include "matmul/double_product.hpp"
#include "common/float_types.hpp"
#include "common/scratch.hpp"
#include "softmax/softmax_rows.hpp"

#include "attention/attention.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kScores = 64 << 10;  // in a block
constexpr int64_t kFewestRows = 16;    // that are worth a product

struct AttentionShape {
  int64_t batch, heads, queries, keys, depth, width;  // depth of queries and keys, width of values

  AttentionShape(const Signature& s, int64_t n_heads) : heads(n_heads) {
    counted(s, 3, 1);
    const Dims &q = s.inputs[0].shape, &k = s.inputs[1].shape, &v = s.inputs[2].shape;
    if (q.size() != 3 || k.size() != 3 || v.size() != 3 || heads < 1 || q[2] % heads != 0 || v[2] % heads != 0)
      throw Unsupported{};
    batch = q[0], queries = q[1], keys = k[1], depth = q[2] / heads, width = v[2] / heads;
    if (k != Dims{batch, keys, q[2]} || v != Dims{batch, keys, v[2]} ||
        s.outputs[0].shape != Dims{batch, queries, v[2]})
      throw Unsupported{};
  }

  Cost cost() const {
    const auto scores = static_cast<double>(batch * heads * queries) * static_cast<double>(keys);
    return {scores * (2.0 * static_cast<double>(depth + width) + 20), 0};
  }
};

template <class T>
class FusedAttention final : public Plan {
 public:
  FusedAttention(const Signature& s, const FusedAttentionOptions& o)
      : Plan(s, AttentionShape(s, o.heads).cost()), a_(s, o.heads), factor_(static_cast<Wide<T>>(o.scale)),
        rows_(std::min(a_.queries, std::max(kFewestRows, kScores / a_.keys))) {
    TeamScope alone(1);
    const DataType type = std::is_same_v<T, BFloat16> ? DataType::bf16 : DataType::f32;  // of oneDNN's products
    const int64_t in = a_.heads * a_.depth, out = a_.heads * a_.width;
    ProductShape scores = {rows_, a_.depth, a_.keys, {in, 1}, {1, in}, a_.keys};
    scores.type = type;
    scores.repack = false;  // a reorder for so few rows costs more than the product saves
    scores_.emplace(scores, threads());
    ProductShape mixed = {rows_, a_.keys, a_.width, {a_.keys, 1}, {out, 1}, out};
    mixed.type = mixed.result = type;
    mixed.repack = false;
    mixed_.emplace(mixed, threads());
    Sections sections;
    pad_ = sections.add_bytes(std::max(scores_->scratchpad_bytes(), mixed_->scratchpad_bytes()));
    keys_ = sections.add_bytes(scores_->packed_bytes());
    values_ = sections.add_bytes(mixed_->packed_bytes());
    block_ = sections.add<Wide<T>>(rows_ * a_.keys);
    probabilities_ = sections.add<T>(kExact ? 0 : rows_ * a_.keys);
    of_thread_ = sections.bytes();
    memory_ = add_scratch(static_cast<size_t>(threads()) * of_thread_);
  }

 private:
  static constexpr bool kExact = std::is_same_v<T, Wide<T>>;  // tensors hold what is computed with

  // What one thread works with.
  struct Worker {
    Worker(const FusedAttention& plan, char* memory)
        : scratch(memory), scores(*plan.scores_, memory + plan.pad_), mixed(*plan.mixed_, memory + plan.pad_) {}
    char* scratch;
    typename ProductOf<T>::Frame scores, mixed;
  };

  void execute(const Call& call) const override {
    if (!call.wanted(0)) return;
    auto* result = call.target<T>(0);
    parallel_shares(a_.batch * a_.heads, [&](int64_t begin, int64_t end, int thread) {
      Worker worker(*this, call.scratch<char>(memory_) + static_cast<size_t>(thread) * of_thread_);
      for (int64_t i = begin; i < end; ++i) head(call, worker, i, result);
    });
  }
  bool stages(size_t, const uint8_t* req) const override { return req[0] == MX_REQ_ADD; }

  void head(const Call& call, Worker& w, int64_t i, T* result) const {
    const int64_t in = a_.heads * a_.depth, out = a_.heads * a_.width, n = i / a_.heads, h = i % a_.heads;
    const T* queries = call.input<T>(0) + n * a_.queries * in + h * a_.depth;
    const void* keys = w.scores.pack(call.input<T>(1) + n * a_.keys * in + h * a_.depth, w.scratch + keys_);
    const void* values = w.mixed.pack(call.input<T>(2) + n * a_.keys * out + h * a_.width, w.scratch + values_);
    T* to = result + n * a_.queries * out + h * a_.width;
    auto* block = reinterpret_cast<Wide<T>*>(w.scratch + block_);
    for (int64_t done = 0; done < a_.queries; done += rows_) {
      const int64_t first = std::min(done, a_.queries - rows_);  // the last block begins with rows that are done
      w.scores.run(queries + first * in, keys, block);
      w.mixed.run(probabilities(w, block), values, to + first * out);
    }
  }

  // The softmax of the rows of a block, in the type of the tensors.
  const T* probabilities(const Worker& w, Wide<T>* block) const {
    auto* rounded = reinterpret_cast<T*>(w.scratch + probabilities_);
    const int64_t n = a_.keys;
    for (int64_t row = 0; row < rows_; ++row) {
      Wide<T>* x = block + row * n;
      const Wide<T> top = factor_ >= 0 ? largest(x, n) : *std::min_element(x, x + n);
      const double sum = in_runs(n, [&](int64_t i, int64_t some) { return powers(x + i, top, factor_, x + i, some); });
      const auto share = static_cast<Wide<T>>(1 / sum);
      if constexpr (kExact) {
        scale(x, share, n);
      } else {
        round(x, rounded + row * n, n, share);
      }
    }
    if constexpr (kExact) return block;
    else return rounded;
  }

  const AttentionShape a_;
  const Wide<T> factor_;
  const int64_t rows_;  // of queries in a block
  std::optional<ProductOf<T>> scores_, mixed_;
  Section memory_;
  size_t pad_, keys_, values_, block_, probabilities_, of_thread_;  // of a thread's scratch memory
};

}  // namespace

PlanPtr fused_attention(const Signature& s, const FusedAttentionOptions& o) {
  counted(s, 3, 1);
  if (all_double(s)) return std::make_unique<FusedAttention<double>>(s, o);
  if (all_float(s, {})) return std::make_unique<FusedAttention<float>>(s, o);
  return std::make_unique<FusedAttention<BFloat16>>(s, o);
}

}  // namespace mx::cpu
