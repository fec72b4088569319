// SPDX-License-Identifier: Apache-2.0
#include "attention_graph.hpp"

#include <vector>

#include "mx_core/failure.hpp"

namespace mx::cuda::dnn {
namespace {

constexpr int64_t kScaleId = 20, kOneId = 21, kBetween = 100;

const char* name_of(const Attention& what) {
  return what.stage == Attention::kGradient ? "cuDNN gradient of an attention" : "cuDNN attention";
}

// Tensors of an attention: (examples, heads, rows, depth), of which the heads lie side by side.
class Tensors {
 public:
  Tensors(const Attention& what, Parts& parts) : what_(what), parts_(parts), type_(type_of(what.dtype)) {}

  const Descriptor& rows(int64_t id, int64_t rows, int64_t depth) {
    return parts_.tensor(id, type_, {what_.batch, what_.heads, rows, depth}, strides(rows, depth));
  }
  // The same with the last two axes exchanged.
  const Descriptor& columns(int64_t id, int64_t rows, int64_t depth) {
    const std::vector<int64_t> s = strides(rows, depth);
    return parts_.tensor(id, type_, {what_.batch, what_.heads, depth, rows}, {s[0], s[1], s[3], s[2]});
  }
  // A number for each row of the query.
  const Descriptor& statistics(int64_t id) { return parts_.tensor(id, kFloat32, number_each(), packed(number_each())); }
  const Descriptor& scale() { return parts_.constant(kScaleId, what_.scale, 4); }

  std::vector<int64_t> strides(int64_t rows, int64_t depth) const {
    const int64_t row = what_.heads * depth;
    return {rows * row, depth, row, 1};
  }
  static std::vector<int64_t> packed(const std::vector<int64_t>& extents) { return strides_of(extents, false); }
  std::vector<int64_t> number_each() const { return {what_.batch, what_.heads, what_.queries, 1}; }
  int type() const { return type_; }

 private:
  const Attention& what_;
  Parts& parts_;
  const int type_;
};

std::vector<Pointer> forward(const Attention& what, Parts& parts) {
  Tensors tensors(what, parts);
  Descriptor& made = parts.keep(kAttentionOperation);
  made.set(kAttentionQuery, tensors.rows(1, what.queries, what.depth))
      .set(kAttentionKey, tensors.rows(2, what.keys, what.depth))
      .set(kAttentionValue, tensors.rows(3, what.keys, what.width))
      .set(kAttentionOutput, tensors.rows(4, what.queries, what.width))
      .set(kAttentionScale, tensors.scale());
  if (what.stage == Attention::kTraining) made.set(kAttentionStatistics, tensors.statistics(5));
  return {made.finalize().get()};
}

// The gradient in the operations that cuDNN has one kernel for.  That of the scores is a tensor which both of its
// readers get whole, so that the gradient of the query is no sum of parts in an order that changes.
//
// Source: Dao et al., FlashAttention, 2022, algorithm 4; the operations are those of NVIDIA's cudnn-frontend 1.23.
class Gradient {
 public:
  Gradient(const Attention& what, Parts& parts) : what_(what), parts_(parts), tensors_(what, parts) {}

  std::vector<Pointer> operations() {
    const Descriptor& query = tensors_.rows(1, what_.queries, what_.depth);
    const Descriptor& key = tensors_.columns(2, what_.keys, what_.depth);
    const Descriptor& value = tensors_.columns(3, what_.keys, what_.width);
    const Descriptor& output = tensors_.rows(4, what_.queries, what_.width);
    const Descriptor& head = tensors_.rows(5, what_.queries, what_.width);
    const Descriptor& scale = tensors_.scale();
    const Descriptor& weight = sums_of(head, output);
    const Descriptor& scores = product(query, key);
    const Descriptor& chances =
        each(kExp, each(kSubtract, each(kMultiply, scores, &scale), &tensors_.statistics(6)), nullptr);
    add(parts_.matmul(transposed(chances), head, tensors_.rows(9, what_.keys, what_.width)));
    const Descriptor& away = each(kSubtract, product(head, value), &weight);
    const Descriptor& change = each(kMultiply, each(kMultiply, away, &chances), &scale);
    add(parts_.matmul(transposed(change), query, tensors_.rows(8, what_.keys, what_.depth)));
    const Descriptor& rows =
        parts_.between(++between_, tensors_.type(), {what_.batch, what_.heads, what_.keys, what_.depth},
                       tensors_.strides(what_.keys, what_.depth));
    add(parts_.reshape(key, rows));
    add(parts_.matmul(change, rows, tensors_.rows(7, what_.queries, what_.depth)));
    return operations_;
  }

 private:
  void add(Pointer operation) { operations_.push_back(operation); }

  const Descriptor& between(const std::vector<int64_t>& extents) {
    return parts_.between(++between_, kFloat32, extents, Tensors::packed(extents));
  }
  std::vector<int64_t> square() const { return {what_.batch, what_.heads, what_.queries, what_.keys}; }

  // The sum of head * output for each row.
  const Descriptor& sums_of(const Descriptor& head, const Descriptor& output) {
    const Descriptor& products = between({what_.batch, what_.heads, what_.queries, what_.width});
    add(parts_.pointwise(kMultiply, head, &output, products));
    const Descriptor& sums = between(tensors_.number_each());
    add(parts_.sum(products, sums));
    const Descriptor& made = tensors_.statistics(10);
    add(parts_.pointwise(kMultiply, sums, &parts_.constant(kOneId, 1, 4), made));
    return made;
  }
  const Descriptor& product(const Descriptor& a, const Descriptor& b) {
    const Descriptor& made = between(square());
    add(parts_.matmul(a, b, made));
    return made;
  }
  const Descriptor& each(int mode, const Descriptor& x, const Descriptor* b) {
    const Descriptor& made = between(square());
    add(parts_.pointwise(mode, x, b, made));
    return made;
  }
  const Descriptor& transposed(const Descriptor& x) {
    const std::vector<int64_t> s = Tensors::packed(square());
    const Descriptor& made = parts_.between(
        ++between_, tensors_.type(), {what_.batch, what_.heads, what_.keys, what_.queries}, {s[0], s[1], s[3], s[2]});
    add(parts_.reshape(x, made));
    return made;
  }

  const Attention& what_;
  Parts& parts_;
  Tensors tensors_;
  std::vector<Pointer> operations_;
  int64_t between_ = kBetween;
};

std::vector<Pointer> operations_of(const Attention& what, Parts& parts) {
  for (const int64_t n : {what.batch, what.heads, what.queries, what.keys, what.depth, what.width}) {
    if (n <= 0) {
      throw Error(MX_ERROR_VALUE,
                  std::string("[") + name_of(what) + "] extents: expected above 0, got " + std::to_string(n));
    }
  }
  return what.stage == Attention::kGradient ? Gradient(what, parts).operations() : forward(what, parts);
}

}  // namespace

AttentionPlan::AttentionPlan(const Attention& what, const Choice& choice, const Gpu* gpu, const std::string& properties)
    : GraphPlan(name_of(what), what.dtype, choice, gpu, properties,
                [&what](Parts& parts) { return operations_of(what, parts); }) {}

}  // namespace mx::cuda::dnn
