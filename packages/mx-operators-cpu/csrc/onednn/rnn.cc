// SPDX-License-Identifier: Apache-2.0
//
// A stack of recurrent layers: the input's products of many steps at once, then step by step the
// state's product and the fused cell.
#include <cstring>
#include <optional>

#include "rnn_cells.h"
#include "rnn_lengths.h"
#include "rnn_space.h"

namespace mx::onednn {
namespace {

constexpr int64_t kChunkBytes = 4 << 20;  // of gates whose products are made at once

class Rnn final : public Plan {
 public:
  Rnn(const Signature& s, const RnnOptions& o)
      : Plan(s, rnn_cost(RnnLayout(s.inputs[0].shape, o), 1)), o_(o), l_(s.inputs[0].shape, o) {
    require_float(s);
    check_sizes(s);
    random_blocks = o.random_blocks;
    const int64_t fitting = std::max<int64_t>(kChunkBytes / (4 * l_.batch * l_.rows()), 1);
    const int64_t chunks = (l_.steps + fitting - 1) / fitting;
    chunk_ = (l_.steps + chunks - 1) / chunks;
    ThreadScope team(threads_);
    for (int64_t layer = 0; layer < std::min<int64_t>(l_.layers, 2); ++layer) {
      whole_[layer].emplace(input_product(layer, chunk_));
      if (l_.steps % chunk_ != 0) tail_[layer].emplace(input_product(layer, l_.steps % chunk_));
    }
    ThreadScope small(step_threads(l_));
    step_.emplace(ProductShape{l_.batch, l_.units, l_.rows(), {l_.units, 1}, {1, l_.units}, l_.rows()});
    lay_out();
  }

 private:
  ProductShape input_product(int64_t layer, int64_t steps) const {
    const int64_t k = l_.width(layer);
    return {steps * l_.batch, k, l_.rows(), {k, 1}, {1, k}, l_.rows()};
  }

  void check_sizes(const Signature& s) {
    const size_t n_states = l_.cell_state ? 2 : 1;
    if (s.inputs.size() != 2 + n_states + (o_.has_lengths ? 1 : 0)) throw Unsupported{};
    require_size(s.inputs[1], l_.parameters());
    if (o_.has_lengths) require_size(s.inputs[2 + n_states], l_.batch);
    for (size_t i = 0; i < n_states; ++i) require_size(s.inputs[2 + i], l_.layers * l_.directions * l_.state());
    size_t next = 1;
    if (o_.state_outputs) next += n_states;
    if (l_.reserve() > 0) reserve_ = next++;
    if (o_.has_mask) mask_ = next++;
    if (s.outputs.size() != next || next > kMaxOutputs) throw Unsupported{};
    require_size(s.outputs[0], l_.sequence());
    if (o_.state_outputs)
      for (size_t i = 0; i < n_states; ++i) require_size(s.outputs[1 + i], s.inputs[2].size());
    if (reserve_ != 0) require_size(s.outputs[reserve_], l_.reserve());
    if (mask_ != 0) require_size(s.outputs[mask_], (l_.layers - 1) * l_.sequence());
  }

  void lay_out() {
    Sections sections;
    size_t pad = step_->scratchpad_bytes(), packed = 0;
    for (const auto* products : {&whole_, &tail_}) {
      for (const auto& product : *products) {
        if (!product) continue;
        pad = std::max(pad, product->scratchpad_bytes());
        packed = std::max(packed, product->packed_bytes());
      }
    }
    pad_ = sections.add_bytes(pad);
    packed_w_ = sections.add_bytes(packed);
    packed_r_ = sections.add_bytes(step_->packed_bytes());
    bias_ = sections.add(l_.rows() + l_.units);
    recurrent_ = sections.add(l_.batch * l_.rows());
    h_ = sections.add(l_.state());
    value_ = sections.add(l_.state());
    gates_ = sections.add(chunk_ * l_.batch * l_.rows());
    for (size_t& sequence : sequences_) sequence = sections.add(l_.layers > 1 ? l_.sequence() : 0);
    set_scratch(sections.bytes());
  }

  // Everything one run needs, to be passed about.
  struct Run {
    const Call& call;
    const Substitutes& out;
    const RnnLengths& lengths;
    dnnl::stream stream;
    float* scratch;
    float* reserve;  // nullptr: nothing is kept
    float* part(size_t offset) const { return scratch + offset; }
  };

  void execute(const Call& call) const override {
    bool any = false;
    for (size_t i = 0; i < signature_.outputs.size(); ++i) any = any || call.wanted(i);
    if (!any) return;
    const RnnLengths lengths(l_, o_.has_lengths ? call.input<float>(l_.cell_state ? 4 : 3) : nullptr);
    const Substitutes out(signature_, call, 1u);
    Run run{call, out, lengths, dnnl::stream(cpu_engine()), static_cast<float*>(call.context.scratch[0]),
            reserve_ != 0 && call.wanted(reserve_) ? static_cast<float*>(out.of(reserve_)) : nullptr};
    const auto* x = call.input<float>(0);
    for (int64_t layer = 0; layer < l_.layers; ++layer) {
      const bool top = layer == l_.layers - 1;
      float* spare = run.part(sequences_[layer % 2]);
      float* y = top                      ? static_cast<float*>(out.of(0))
                 : run.reserve != nullptr ? run.reserve + l_.kept_outputs(layer)
                                          : spare;
      for (int64_t direction = 0; direction < l_.directions; ++direction)
        run_layer(run, layer, direction, x, y + direction * l_.units);
      x = y;
      if (o_.has_mask && !top) x = drop(run, layer, y, spare);
    }
    out.deliver();
  }

  void run_layer(Run& run, int64_t layer, int64_t direction, const float* x, float* y) const {
    const auto* parameters = run.call.input<float>(1);
    const int64_t stack = l_.stack(layer, direction), rows = l_.batch * l_.rows();
    const float* h_before = run.call.input<float>(2) + stack * l_.state();
    const float* c_before = l_.cell_state ? run.call.input<float>(3) + stack * l_.state() : nullptr;
    sum_biases(parameters + l_.b_w(layer, direction), parameters + l_.b_r(layer, direction), run.part(bias_));
    const size_t kind = layer > 0 ? 1 : 0;
    Product::Frame whole(*whole_[kind], run.stream, run.part(pad_));
    const void* w = whole.pack(parameters + l_.w(layer, direction), run.part(packed_w_));
    Product::Frame step(*step_, run.stream, run.part(pad_));
    const void* r = step.pack(parameters + l_.r(layer, direction), run.part(packed_r_));
    for (int64_t done = 0; done < l_.steps; done += chunk_) {
      const int64_t some = std::min(chunk_, l_.steps - done);
      const int64_t first = direction == 0 ? done : l_.steps - done - some;
      const bool keeps = run.reserve != nullptr && l_.keeps_gates;
      float* gates = keeps ? run.reserve + l_.kept_gates(layer, direction) + first * rows : run.part(gates_);
      const float* from = x + first * l_.batch * l_.width(layer);
      if (some == chunk_) {
        whole.run(from, w, gates);
      } else {
        Product::Frame last(*tail_[kind], run.stream, run.part(pad_));
        last.run(from, last.pack(parameters + l_.w(layer, direction), run.part(packed_w_)), gates);
      }
      for (int64_t i = 0; i < some; ++i) {
        const int64_t local = running(i, some, direction), t = first + local;
        float* value =
            keeps ? run.reserve + l_.kept_values(layer, direction) + t * l_.state() : run.part(value_);
        {
          ThreadScope team(std::min(step_threads(l_), omp_get_max_threads()));
          step.run(h_before, r, run.part(recurrent_));
        }
        CellForward cell = {0, 0, l_.units, run.part(recurrent_), run.part(bias_), h_before, c_before,
                            gates + local * rows, value, run.part(h_), y + t * l_.batch * l_.width(), l_.width()};
        over_batch(l_, [&](int64_t first_row, int64_t last_row) {
          run.lengths.each_run(
              t, first_row, last_row, [&](int64_t begin, int64_t end) { step_rows(cell, begin, end); },
              [&](int64_t begin, int64_t end) { keep_rows(cell, begin, end); });
        });
        h_before = run.part(h_);
        if (l_.cell_state) c_before = value;
      }
    }
    if (!o_.state_outputs) return;
    show(run, 1, stack, h_before);
    if (l_.cell_state) show(run, 2, stack, c_before);
  }

  void step_rows(CellForward cell, int64_t begin, int64_t end) const {
    cell.begin = begin;
    cell.end = end;
    cell_forward(o_.mode, cell);
  }

  // Behind the last step: states stay, nothing is shown.
  void keep_rows(const CellForward& cell, int64_t begin, int64_t end) const {
    const int64_t some = (end - begin) * l_.units, start = begin * l_.units;
    const auto bytes = static_cast<size_t>(some) * sizeof(float);
    if (cell.h != cell.h_before) std::memcpy(cell.h + start, cell.h_before + start, bytes);
    if (!l_.cell_state) {
      std::fill_n(cell.value + start, some, 0.0f);
    } else if (cell.value != cell.c_before) {
      std::memcpy(cell.value + start, cell.c_before + start, bytes);
    }
    std::fill_n(cell.gates + begin * l_.rows(), (end - begin) * l_.rows(), 0.0f);
    for (int64_t row = begin; row < end; ++row)
      std::fill_n(cell.output + row * cell.output_stride, l_.units, 0.0f);
  }

  void show(const Run& run, size_t output, int64_t stack, const float* state) const {
    if (!run.call.wanted(output)) return;
    std::memcpy(static_cast<float*>(run.out.of(output)) + stack * l_.state(), state,
                static_cast<size_t>(l_.state()) * sizeof(float));
  }

  void sum_biases(const float* b_w, const float* b_r, float* sum) const {
    const bool apart = o_.mode == RnnMode::gru;  // its last gate's b_R is multiplied with another gate
    const int64_t joined = apart ? 2 * l_.units : l_.rows();
    for (int64_t i = 0; i < l_.rows(); ++i) sum[i] = i < joined ? b_w[i] + b_r[i] : b_w[i];
    for (int64_t i = 0; i < l_.units; ++i) sum[l_.rows() + i] = apart ? b_r[joined + i] : 0.0f;
  }

  // What a layer passes up; `y` and `spare` may be the same.
  const float* drop(const Run& run, int64_t layer, const float* y, float* spare) const {
    constexpr int64_t kPiece = 1024;
    const int64_t n = l_.sequence(), start = layer * n;
    auto* shown = run.call.wanted(mask_) ? static_cast<float*>(run.out.of(mask_)) + start : nullptr;
    // Pieces begin where counters do in the stream of all masks.
    const int64_t skip = (4 - start % 4) % 4;
    const auto piece = [&](int64_t first, int64_t some, int64_t lead) {
      float mask[kPiece + 4];
      if (o_.is_train) {
        draw_mask(run.call.context.random_key, run.call.context.random_offset, start + first - lead, some + lead,
                  o_.dropout, mask);
      } else {
        std::fill_n(mask, some + lead, 1.0f);
      }
      multiply(y + first, mask + lead, spare + first, some);
      if (shown != nullptr) std::memcpy(shown + first, mask + lead, static_cast<size_t>(some) * sizeof(float));
    };
    const int64_t head = std::min(skip, n);
    if (head > 0) piece(0, head, start % 4);
    parallel_for((n - head + kPiece - 1) / kPiece, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        piece(head + i * kPiece, std::min(kPiece, n - head - i * kPiece), 0);
    });
    return spare;
  }

  const RnnOptions o_;
  const RnnLayout l_;
  size_t reserve_ = 0, mask_ = 0;  // outputs; 0: there is none
  int64_t chunk_;                  // steps whose input products are made at once
  std::optional<Product> whole_[2], tail_[2], step_;  // of the first layer, of the others
  size_t pad_, packed_w_, packed_r_, bias_, recurrent_, h_, value_, gates_, sequences_[2];
};

}  // namespace

PlanPtr rnn(const Signature& signature, const RnnOptions& options) {
  return std::make_unique<Rnn>(signature, options);
}

}  // namespace mx::onednn
