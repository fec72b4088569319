// SPDX-License-Identifier: Apache-2.0
//
// Back-propagation through a stack of recurrent layers: step by step the fused cell and the state's
// product, then the products of all steps at once.  Products read what tensors hold, floats, doubles or
// BFloat16; of the last sums and the gradients of states go on in float32.
#include <optional>
#include <type_traits>

#include "onednn/engine.hpp"
#include "common/scratch.hpp"
#include "norm/channel_loops.hpp"
#include "rnn/rnn_cells.hpp"
#include "rnn/rnn_space.hpp"

namespace mx::cpu {
namespace {

template <class T>
class RnnBackward final : public Plan {
 public:
  RnnBackward(const Signature& s, const RnnOptions& o)
      : Plan(s, rnn_cost(layout(s, o), 2)), o_(o), l_(layout(s, o)), data_(heads(o)) {
    check_sizes(s);
    constexpr DataType type = kProductType<T>;
    const auto product = [](ProductShape shape, DataType result) {
      shape.type = type;
      shape.result = result;
      return ProductOf<T>(shape);
    };
    TeamScope team(threads());
    for (int64_t layer = 0; layer < std::min<int64_t>(l_.layers, 2); ++layer) {
      const int64_t k = l_.width(layer), n = l_.steps * l_.batch, rows = l_.rows();
      ProductShape down = {n, rows, k, {rows, 1}, {k, 1}, k};
      down_[layer].emplace(product(down, type));
      down.add = true;
      if (l_.directions > 1) down_more_[layer].emplace(product(down, type));
      weights_[layer].emplace(product({rows, n, k, {1, rows}, {k, 1}, k}, type));
    }
    // States before the first step are inputs, the others lie in the output.
    first_.emplace(product({l_.rows(), l_.batch, l_.units, {1, l_.rows()}, {l_.units, 1}, l_.units}, type));
    if (l_.steps > 1)
      others_.emplace(product({l_.rows(), (l_.steps - 1) * l_.batch, l_.units, {1, l_.rows()}, {l_.width(), 1},
                               l_.units, true}, type));
    TeamScope small(step_threads(l_));
    step_.emplace(product({l_.batch, l_.rows(), l_.units, {l_.rows(), 1}, {l_.units, 1}, l_.units,
                           gru() || o_.has_lengths}, DataType::f32));
    lay_out();
  }

 private:
  static size_t heads(const RnnOptions& o) {
    const size_t n_states = o.mode == RnnMode::lstm ? 2 : 1;
    return o.state_outputs ? 1 + n_states : 1;
  }
  static RnnLayout layout(const Signature& s, const RnnOptions& o) {
    if (s.inputs.size() <= heads(o)) throw Unsupported{};
    return RnnLayout(s.inputs[heads(o)].shape, o);
  }
  bool gru() const { return o_.mode == RnnMode::gru; }

  static const Spec& input_spec(const Signature& s, size_t i) {
    if (i >= s.inputs.size()) throw Unsupported{};
    return s.inputs[i];
  }

  void check_sizes(const Signature& s) {
    const size_t n_states = l_.cell_state ? 2 : 1;
    size_t next = data_ + 2 + n_states;
    if (o_.has_lengths) require_size(input_spec(s, lengths_ = next++), l_.batch);
    output_ = next++;
    if (l_.reserve() > 0) reserve_ = next++;
    if (o_.has_mask) mask_ = next++;
    if (s.inputs.size() != next || s.outputs.size() != 2 + n_states) throw Unsupported{};
    const int64_t states = l_.layers * l_.directions * l_.state();
    require_size(s.inputs[0], l_.sequence());
    for (size_t i = 1; i < data_; ++i) require_size(s.inputs[i], states);
    require_size(s.inputs[data_ + 1], l_.parameters());
    for (size_t i = 0; i < n_states; ++i) require_size(s.inputs[data_ + 2 + i], states);
    require_size(s.inputs[output_], l_.sequence());
    if (reserve_ != 0) require_size(s.inputs[reserve_], l_.reserve());
    if (mask_ != 0) require_size(s.inputs[mask_], (l_.layers - 1) * l_.sequence());
    for (size_t i = 0; i < s.outputs.size(); ++i) require_size(s.outputs[i], s.inputs[data_ + i].size());
  }

  void lay_out() {
    Sections sections;
    size_t pad = step_->scratchpad_bytes(), packed = step_->packed_bytes();
    for (const auto* product : {&down_[0], &down_[1], &down_more_[0], &down_more_[1], &weights_[0], &weights_[1],
                                &first_, &others_}) {
      if (!*product) continue;
      pad = std::max(pad, (*product)->scratchpad_bytes());
      packed = std::max(packed, (*product)->packed_bytes());
    }
    pad_ = sections.add_bytes(pad);
    packed_ = sections.add_bytes(packed);
    d_gates_ = sections.add<T>(l_.steps * l_.batch * l_.rows());
    d_recurrent_ = gru() ? sections.add<T>(l_.steps * l_.batch * l_.rows()) : d_gates_;
    dh_ = sections.add<Wide<T>>(l_.state());
    dc_ = sections.add<Wide<T>>(l_.cell_state ? l_.state() : 0);
    for (size_t& sequence : heads_) sequence = sections.add<T>(l_.layers > 1 ? l_.sequence() : 0);
    dropped_ = sections.add<T>(o_.has_mask ? l_.sequence() : 0);
    cleaned_ = sections.add<T>(o_.has_lengths ? l_.steps * l_.batch * l_.input : 0);
    d_first_ = sections.add<T>(o_.has_lengths && l_.directions > 1 ? l_.batch * l_.rows() : 0);
    whole_lengths_ = sections.add<int64_t>(o_.has_lengths ? l_.batch : 0);
    add_scratch(sections.bytes());
  }

  const T* reserve(const Call& call) const { return reserve_ != 0 ? call.input<T>(reserve_) : nullptr; }
  const T* outputs_of(const Call& call, int64_t layer) const {
    return layer == l_.layers - 1 ? call.input<T>(output_) : reserve(call) + l_.kept_outputs(layer);
  }
  const T* mask_of(const Call& call, int64_t layer) const {
    return call.input<T>(mask_) + layer * l_.sequence();
  }
  // y = x * mask over a sequence.
  void masked(const T* x, const T* mask, T* y) const {
    constexpr int64_t kPiece = 16384;
    const int64_t n = l_.sequence();
    parallel_shares((n + kPiece - 1) / kPiece, [&](int64_t begin, int64_t end) {
      multiply(x + begin * kPiece, mask + begin * kPiece, y + begin * kPiece,
               std::min(end * kPiece, n) - begin * kPiece);
    });
  }

  // Data without what lies after the sequences: it would be multiplied by 0, which NaN survives.
  void clean(const RnnLengths& lengths, const T* x, T* cleaned) const {
    parallel_shares(l_.steps, [&](int64_t first, int64_t last) {
      for (int64_t t = first; t < last; ++t) {
        const auto copy = [&](int64_t begin, int64_t end) {
          const int64_t start = (t * l_.batch + begin) * l_.input;
          std::copy_n(x + start, (end - begin) * l_.input, cleaned + start);
        };
        const auto clear = [&](int64_t begin, int64_t end) {
          std::fill_n(cleaned + (t * l_.batch + begin) * l_.input, (end - begin) * l_.input, T(0.0f));
        };
        lengths.each_run(t, 0, l_.batch, copy, clear);
      }
    });
  }

  void execute(const Call& call) const override {
    bool any = false;
    for (size_t i = 0; i < signature_.outputs.size(); ++i) any = any || call.wanted(i);
    if (!any) return;
    auto* scratch = static_cast<char*>(call.context.scratch[0]);
    const RnnLengths lengths(l_, o_.has_lengths ? call.input<float>(lengths_) : nullptr,
                             reinterpret_cast<int64_t*>(scratch + whole_lengths_));
    RnnRun run{call, lengths, scratch};
    const auto* head = call.input<T>(0);
    for (int64_t layer = l_.layers; layer-- > 0;) {
      const T* x = layer == 0 ? call.input<T>(data_) : outputs_of(call, layer - 1);
      T* below = layer == 0 ? run.written<T>(0) : run.part<T>(heads_[layer % 2]);
      if (layer > 0 && o_.has_mask) {
        masked(x, mask_of(call, layer - 1), run.part<T>(dropped_));
        x = run.part<T>(dropped_);
      } else if (layer == 0 && lengths.padded() && run.written<T>(1) != nullptr) {
        clean(lengths, x, run.part<T>(cleaned_));
        x = run.part<T>(cleaned_);
      }
      for (int64_t direction = 0; direction < l_.directions; ++direction) {
        through_steps(run, layer, direction, head);
        if (run.written<T>(1) != nullptr) weight_gradients(run, layer, direction, x);
        if (below != nullptr) pass_down(run, layer, direction, below);
      }
      if (layer > 0 && o_.has_mask) masked(below, mask_of(call, layer - 1), below);
      head = below;
    }
  }
  bool stages(size_t i, const uint8_t* req) const override { return req[i] == MX_REQ_ADD; }

  // Fills d_gates_ and d_recurrent_, and writes the gradients of the first states.
  void through_steps(RnnRun& run, int64_t layer, int64_t direction, const T* head) const {
    const Call& call = run.call;
    const int64_t stack = l_.stack(layer, direction), rows = l_.batch * l_.rows(), row = l_.batch * l_.width();
    Wide<T> *dh = run.part<Wide<T>>(dh_), *dc = run.part<Wide<T>>(dc_);
    for (size_t i = 0; i < (l_.cell_state ? 2u : 1u); ++i) {
      Wide<T>* to = i == 0 ? dh : dc;
      if (o_.state_outputs) {
        convert(call.input<T>(1 + i) + stack * l_.state(), to, l_.state());
      } else {
        std::fill_n(to, l_.state(), Wide<T>(0));
      }
    }
    const T* y = outputs_of(call, layer) + direction * l_.units;
    const T* gates = l_.keeps_gates ? reserve(call) + l_.kept_gates(layer, direction) : nullptr;
    const T* values = l_.keeps_gates ? reserve(call) + l_.kept_values(layer, direction) : nullptr;
    const T* h_first = call.input<T>(data_ + 2) + stack * l_.state();
    const T* c_first = l_.cell_state ? call.input<T>(data_ + 3) + stack * l_.state() : nullptr;
    typename ProductOf<T>::Frame step(*step_, run.part<char>(pad_));
    const void* r = step.pack(call.input<T>(data_ + 1) + l_.r(layer, direction), run.part<char>(packed_));
    for (int64_t i = l_.steps; i-- > 0;) {
      const int64_t t = running(i, l_.steps, direction), before = running(i - 1, l_.steps, direction);
      T *d = run.part<T>(d_gates_) + t * rows, *d_r = run.part<T>(d_recurrent_) + t * rows;
      CellBackward<T> cell{};
      cell.units = l_.units;
      cell.gates = gates != nullptr ? gates + t * rows : y + t * row;
      cell.value = values != nullptr ? values + t * l_.state() : nullptr;
      cell.h_before = i > 0 ? y + before * row : h_first;
      cell.h_before_stride = i > 0 ? l_.width() : l_.units;
      cell.c_before = i > 0 && values != nullptr ? values + before * l_.state() : c_first;
      cell.output_stride = l_.width();
      cell.head = head + t * row + direction * l_.units;
      cell.dh = dh;
      cell.dc = dc;
      cell.d_gates = d;
      cell.d_recurrent = d_r;
      over_batch(l_, [&](int64_t first_row, int64_t last_row) {
        run.lengths.each_run(
            t, first_row, last_row,
            [&](int64_t begin, int64_t end) {
              step_rows(run.lengths, cell, h_first, direction == 1 && i > 0 ? t : -1, begin, end);
            },
            [&](int64_t begin, int64_t end) {
              std::fill(d + begin * l_.rows(), d + end * l_.rows(), T(0.0f));
              std::fill(d_r + begin * l_.rows(), d_r + end * l_.rows(), T(0.0f));
            });
      });
      TeamScope team(std::min(step_threads(l_), team_size()));
      step.run(d_r, r, dh);
    }
    for (size_t i = 0; i < (l_.cell_state ? 2u : 1u); ++i)
      if (T* to = run.written<T>(2 + i)) convert(i == 0 ? dh : dc, to + stack * l_.state(), l_.state());
  }

  // `reverse`: the step, if the reverse direction may have begun with it; such rows had the first state before.
  void step_rows(const RnnLengths& lengths, CellBackward<T> cell, const T* h_first, int64_t reverse, int64_t begin,
                 int64_t end) const {
    if (!lengths.padded()) {
      cell.begin = begin;
      cell.end = end;
      return cell_backward(o_.mode, cell);
    }
    for (cell.begin = begin; cell.begin < end; cell.begin = cell.end) {
      CellBackward<T> rows = cell;
      const bool begins = lengths[cell.begin] == reverse + 1;
      rows.end = cell.end = cell.begin + 1;
      while (rows.end < end && (lengths[rows.end] == reverse + 1) == begins) cell.end = ++rows.end;
      if (begins) {
        rows.h_before = h_first;
        rows.h_before_stride = l_.units;
      }
      cell_backward(o_.mode, rows);
      if (!gru()) std::fill(cell.dh + rows.begin * l_.units, cell.dh + rows.end * l_.units, Wide<T>(0));
    }
  }

  // The gradients of R h of the first steps, whose h is an input.
  const T* at_first_steps(RnnRun& run, int64_t direction, const T* d_r) const {
    const int64_t rows = l_.batch * l_.rows();
    if (direction == 0 || !run.lengths.padded()) return d_r + running(0, l_.steps, direction) * rows;
    T* gathered = run.part<T>(d_first_);
    for (int64_t n = 0; n < l_.batch; ++n) {
      const int64_t begin = n * l_.rows();
      if (run.lengths[n] > 0) {
        std::copy_n(d_r + (run.lengths[n] - 1) * rows + begin, l_.rows(), gathered + begin);
      } else {
        std::fill_n(gathered + begin, l_.rows(), T(0.0f));
      }
    }
    return gathered;
  }

  void weight_gradients(RnnRun& run, int64_t layer, int64_t direction, const T* x) const {
    T* gradient = run.written<T>(1);
    const T *d = run.part<T>(d_gates_), *d_r = run.part<T>(d_recurrent_);
    multiply_into(run, *weights_[layer > 0 ? 1 : 0], d, x, gradient + l_.w(layer, direction));
    const int64_t rows = l_.batch * l_.rows(), row = l_.batch * l_.width(), stack = l_.stack(layer, direction);
    T* d_weights = gradient + l_.r(layer, direction);
    multiply_into(run, *first_, at_first_steps(run, direction, d_r),
                  run.call.input<T>(data_ + 2) + stack * l_.state(), d_weights);
    if (others_) {
      const T* y = outputs_of(run.call, layer) + direction * l_.units;
      const bool backwards = direction == 1;
      multiply_into(run, *others_, d_r + (backwards ? 0 : rows), y + (backwards ? row : 0), d_weights);
    }
    sum_steps(d, gradient + l_.b_w(layer, direction));
    if (gru()) {
      sum_steps(d_r, gradient + l_.b_r(layer, direction));
    } else {
      std::copy_n(gradient + l_.b_w(layer, direction), l_.rows(), gradient + l_.b_r(layer, direction));
    }
  }

  void pass_down(RnnRun& run, int64_t layer, int64_t direction, T* below) const {
    const auto& product = (direction == 0 ? down_ : down_more_)[layer > 0 ? 1 : 0];
    multiply_into(run, *product, run.part<T>(d_gates_),
                  run.call.input<T>(data_ + 1) + l_.w(layer, direction), below);
  }

  void multiply_into(RnnRun& run, const ProductOf<T>& product, const T* a, const T* b, T* c) const {
    typename ProductOf<T>::Frame frame(product, run.part<char>(pad_));
    frame.run(a, frame.pack(b, run.part<char>(packed_)), c);
  }

  // The sum over steps and batch.
  void sum_steps(const T* d, T* total) const {
    const int64_t columns = l_.rows(), blocks = (columns + kBlockChannels - 1) / kBlockChannels;
    parallel_shares(blocks, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        const int64_t first = b * kBlockChannels, some = std::min(kBlockChannels, columns - first);
        double result[kBlockChannels] = {};
        sum_columns(d + first, columns, some, result);
        for (int64_t i = 0; i < some; ++i) total[first + i] = T(static_cast<Wide<T>>(result[i]));
      }
    });
  }
  void sum_columns(const T* d, int64_t columns, int64_t some, double* total) const {
    const int64_t n = l_.steps * l_.batch;
    if constexpr (kExact<T>) {
      sums(d, {n, columns, some, 1}, total);
    } else {
      constexpr int64_t kRows = 32;
      float wide[kRows * kBlockChannels];
      for (int64_t row = 0; row < n; row += kRows) {
        const int64_t rows = std::min(kRows, n - row);
        for (int64_t i = 0; i < rows; ++i) convert(d + (row + i) * columns, wide + i * some, some);
        double part[kBlockChannels] = {};
        sums(wide, {rows, some, some, 1}, part);
        for (int64_t i = 0; i < some; ++i) total[i] += part[i];
      }
    }
  }

  const RnnOptions o_;
  const RnnLayout l_;
  const size_t data_;                              // inputs: the forward ones begin here
  size_t lengths_ = 0, output_ = 0, reserve_ = 0, mask_ = 0;  // inputs; 0: there is none
  std::optional<ProductOf<T>> down_[2], down_more_[2];  // of the first layer, of the others; second direction
  std::optional<ProductOf<T>> weights_[2], first_, others_, step_;
  size_t pad_, packed_, d_gates_, d_recurrent_, dh_, dc_, heads_[2], dropped_,
      cleaned_, d_first_, whole_lengths_;
};

}  // namespace

PlanPtr rnn_backward(const Signature& s, const RnnOptions& o) {
  const size_t heads = o.mode == RnnMode::lstm ? 3 : 2;  // with states; the lengths lie after the forward inputs
  const size_t lengths = (o.state_outputs ? heads : 1) + heads + 1;
  if (s.outputs.empty()) throw Unsupported{};
  if (all_double(s, o.has_lengths ? lengths : s.inputs.size())) return std::make_unique<RnnBackward<double>>(s, o);
  if (all_float(s, {o.has_lengths ? lengths : s.inputs.size()})) return std::make_unique<RnnBackward<float>>(s, o);
  return std::make_unique<RnnBackward<BFloat16>>(s, o);
}

}  // namespace mx::cpu
