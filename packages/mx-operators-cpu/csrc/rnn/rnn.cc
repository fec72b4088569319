// SPDX-License-Identifier: Apache-2.0
//
// A stack of recurrent layers: the input's products of many steps at once, then step by step the
// state's product and the fused cell.  Products read what tensors hold, floats, doubles or
// BFloat16; of the last sums, gates and the cell state of lstm, and the state of gru, go on in float32.
#include <array>
#include <type_traits>

#include "onednn/engine.hpp"
#include "common/scratch.hpp"
#include "rnn/rnn_cells.hpp"
#include "rnn/rnn_weights.hpp"

namespace mx::cpu {
namespace {

template <class T>
class Rnn final : public Plan {
 public:
  Rnn(const Signature& s, const RnnOptions& o)
      : Plan(s, rnn_cost(RnnLayout(s.inputs[0].shape, o), 1)), o_(o), l_(s.inputs[0].shape, o),
        weights_(l_, o.mode, threads()) {
    check_sizes(s);
    random_blocks = o.random_blocks;
    lay_out();
  }

 private:
  void check_sizes(const Signature& s) {
    const size_t n_states = l_.cell_state ? 2 : 1;
    if (s.inputs.size() != 2 + n_states + (o_.has_lengths ? 1 : 0)) throw Unsupported{};
    require_size(s.inputs[1], o_.packed ? static_cast<int64_t>(weights_.bytes() / sizeof(float)) : l_.parameters());
    if (o_.has_lengths) require_size(s.inputs[2 + n_states], l_.batch);
    for (size_t i = 0; i < n_states; ++i) require_size(s.inputs[2 + i], l_.layers * l_.directions * l_.state());
    size_t next = 1;
    if (o_.state_outputs) next += n_states;
    if (l_.reserve() > 0 && !o_.packed) reserve_ = next++;
    if (o_.has_mask) mask_ = next++;
    if (s.outputs.size() != next) throw Unsupported{};
    require_size(s.outputs[0], l_.sequence());
    if (o_.state_outputs)
      for (size_t i = 0; i < n_states; ++i) require_size(s.outputs[1 + i], s.inputs[2].size());
    if (reserve_ != 0) require_size(s.outputs[reserve_], l_.reserve());
    if (mask_ != 0) require_size(s.outputs[mask_], (l_.layers - 1) * l_.sequence());
  }

  void lay_out() {
    const int64_t step = l_.batch * l_.rows();
    Sections sections;
    pad_ = sections.add_bytes(weights_.scratchpad_bytes());
    packed_ = sections.add_bytes(o_.packed ? 0 : std::max(weights_.bytes(0), weights_.bytes(1)));
    recurrent_ = sections.add<Wide<T>>(step);
    h_ = sections.add<T>(l_.state());
    state_ = sections.add<Wide<T>>(kExact<T> ? 0 : l_.state());
    value_ = sections.add<T>(kExact<T> ? l_.state() : 0);
    gates_ = sections.add<Wide<T>>(weights_.chunk() * step);
    for (size_t& sequence : sequences_) sequence = sections.add<T>(l_.layers > 1 ? l_.sequence() : 0);
    whole_lengths_ = sections.add<int64_t>(o_.has_lengths ? l_.batch : 0);
    add_scratch(sections.bytes());
  }

  void execute(const Call& call) const override {
    bool any = false;
    for (size_t i = 0; i < signature_.outputs.size(); ++i) any = any || call.wanted(i);
    if (!any) return;
    auto* scratch = static_cast<char*>(call.context.scratch[0]);
    const RnnLengths lengths(l_, o_.has_lengths ? call.input<float>(l_.cell_state ? 4 : 3) : nullptr,
                             reinterpret_cast<int64_t*>(scratch + whole_lengths_));
    RnnRun run{call, lengths, scratch};
    T* reserve = reserve_ != 0 ? run.written<T>(reserve_) : nullptr;
    const auto* x = call.input<T>(0);
    for (int64_t layer = 0; layer < l_.layers; ++layer) {
      const bool top = layer == l_.layers - 1;
      T* spare = run.part<T>(sequences_[layer % 2]);
      T* y = top ? call.target<T>(0) : reserve != nullptr ? reserve + l_.kept_outputs(layer) : spare;
      for (int64_t direction = 0; direction < l_.directions; ++direction)
        run_layer(run, layer, direction, x, y + direction * l_.units, l_.keeps_gates ? reserve : nullptr);
      x = y;
      if (o_.has_mask && !top) x = drop(run, layer, y, spare);
    }
  }
  // The top layer's sequence is computed whether it is wanted or not.
  bool stages(size_t i, const uint8_t* req) const override {
    return req[i] == MX_REQ_ADD || (i == 0 && req[i] == MX_REQ_NULL);
  }

  typename RnnWeights<T>::Parts weights(RnnRun& run, int64_t layer, int64_t direction) const {
    if (o_.packed) return weights_.at(layer, run.call.input<char>(1) + weights_.offset(layer, direction));
    return weights_.pack(run.call.input<T>(1), layer, direction, run.part<char>(packed_));
  }

  // What goes on wide from the first step: c of lstm, h of gru.
  const Wide<T>* first_state(const RnnRun& run, int64_t stack) const {
    if (o_.mode != RnnMode::lstm && o_.mode != RnnMode::gru) return nullptr;
    const T* given = run.call.input<T>(l_.cell_state ? 3 : 2) + stack * l_.state();
    if constexpr (kExact<T>) {
      return given;
    } else {
      convert(given, run.part<Wide<T>>(state_), l_.state());
      return run.part<Wide<T>>(state_);
    }
  }

  // Where the gates of the `some` steps from `done` on lie, in running order; `reserve`: nullptr where they are not
  // kept.
  struct Chunk {
    int64_t first;  // step
    Wide<T>* gates;   // of that step
  };
  Chunk input_product(RnnRun& run, typename ProductOf<T>::Frame& product, const void* w, int64_t layer,
                      int64_t direction, const T* x, int64_t done, int64_t some, Wide<T>* keep) const {
    const int64_t rows = l_.batch * l_.rows(), chunk = weights_.chunk();
    const int64_t first = direction == 0 ? done : l_.steps - done - some;
    // The last product begins with steps that are done where fewer are left.
    const int64_t from = some == chunk ? first : direction == 0 ? l_.steps - chunk : 0;
    Wide<T>* gates = keep != nullptr && some == chunk ? keep + first * rows : run.part<Wide<T>>(gates_);
    product.run(x + from * l_.batch * l_.width(layer), w, gates);
    return {first, gates + (first - from) * rows};
  }

  void run_layer(RnnRun& run, int64_t layer, int64_t direction, const T* x, T* y, T* reserve) const {
    const int64_t stack = l_.stack(layer, direction), rows = l_.batch * l_.rows();
    T* kept_gates = reserve != nullptr ? reserve + l_.kept_gates(layer, direction) : nullptr;
    T* kept_values = reserve != nullptr ? reserve + l_.kept_values(layer, direction) : nullptr;
    const T* h_before = run.call.input<T>(2) + stack * l_.state();
    const Wide<T>* state_before = first_state(run, stack);
    const typename RnnWeights<T>::Parts parts = weights(run, layer, direction);
    typename ProductOf<T>::Frame whole(weights_.of_input(layer), run.part<char>(pad_));
    typename ProductOf<T>::Frame step(weights_.of_state(), run.part<char>(pad_));
    for (int64_t done = 0; done < l_.steps; done += weights_.chunk()) {
      const int64_t some = std::min(weights_.chunk(), l_.steps - done);
      Wide<T>* keep = nullptr;
      if constexpr (kExact<T>) keep = kept_gates;
      const Chunk chunk = input_product(run, whole, parts.w, layer, direction, x, done, some, keep);
      for (int64_t i = 0; i < some; ++i) {
        const int64_t local = running(i, some, direction), t = chunk.first + local;
        {
          TeamScope team(std::min(step_threads(l_), team_size()));
          step.run(h_before, parts.r, run.part<Wide<T>>(recurrent_));
        }
        CellForward<T> cell{};
        cell.units = l_.units;
        cell.recurrent = run.part<Wide<T>>(recurrent_);
        cell.bias = parts.bias;
        cell.gates = chunk.gates + local * rows;
        cell.state_before = state_before;
        cell.h = run.part<T>(h_);
        if (reserve != nullptr) {
          cell.kept = kept_gates + t * rows;
          cell.value = kept_values + t * l_.state();
        } else if constexpr (kExact<T>) {
          cell.kept = cell.gates;
          cell.value = run.part<T>(value_);
        }
        if constexpr (kExact<T>) {
          cell.state = l_.cell_state ? cell.value : cell.h;
        } else {
          cell.state = run.part<Wide<T>>(state_);
        }
        cell.output = y + t * l_.batch * l_.width();
        cell.output_stride = l_.width();
        over_batch(l_, [&](int64_t first_row, int64_t last_row) {
          run.lengths.each_run(
              t, first_row, last_row, [&](int64_t begin, int64_t end) { step_rows(cell, begin, end); },
              [&](int64_t begin, int64_t end) { keep_rows(cell, h_before, begin, end); });
        });
        h_before = cell.h;
        state_before = cell.state;
      }
    }
    if (!o_.state_outputs) return;
    if (T* shown = run.written<T>(1)) std::copy_n(h_before, l_.state(), shown + stack * l_.state());
    if (!l_.cell_state) return;
    if (T* shown = run.written<T>(2)) convert(state_before, shown + stack * l_.state(), l_.state());
  }

  void step_rows(CellForward<T> cell, int64_t begin, int64_t end) const {
    cell.begin = begin;
    cell.end = end;
    cell_forward(o_.mode, cell);
  }

  // Behind the last step: states stay, nothing is shown.
  void keep_rows(const CellForward<T>& cell, const T* h_before, int64_t begin, int64_t end) const {
    const int64_t some = (end - begin) * l_.units, start = begin * l_.units;
    if (cell.h != h_before) std::copy_n(h_before + start, some, cell.h + start);
    for (int64_t row = begin; row < end; ++row)
      std::fill_n(cell.output + row * cell.output_stride, l_.units, T(0.0f));
    if (cell.kept == nullptr) return;
    if (!l_.cell_state) {
      std::fill_n(cell.value + start, some, T(0.0f));
    } else if (static_cast<const void*>(cell.value) != cell.state_before) {
      convert(cell.state_before + start, cell.value + start, some);
    }
    std::fill_n(cell.kept + begin * l_.rows(), (end - begin) * l_.rows(), T(0.0f));
  }

  // What a layer passes up; `y` and `spare` may be the same.
  static constexpr int64_t kPiece = 1024;
  const T* drop(const RnnRun& run, int64_t layer, const T* y, T* spare) const {
    const int64_t n = l_.sequence(), start = layer * n;
    T* shown = run.written<T>(mask_);
    if (shown != nullptr) shown += start;
    // Pieces begin where counters do in the stream of all masks.
    const int64_t skip = (4 - start % 4) % 4;
    const auto piece = [&](int64_t first, int64_t some, int64_t lead) {
      std::array<T, kPiece + 4> drawn;
      T* const mask = drawn.data();
      if (o_.is_train) {
        draw_mask(run.call.context.random_key, run.call.context.random_offset, start + first - lead, some + lead,
                  o_.dropout, mask);
      } else {
        std::fill_n(mask, some + lead, T(1.0f));
      }
      multiply(y + first, mask + lead, spare + first, some);
      if (shown != nullptr) std::copy_n(mask + lead, some, shown + first);
    };
    const int64_t head = std::min(skip, n);
    if (head > 0) piece(0, head, start % 4);
    parallel_shares((n - head + kPiece - 1) / kPiece, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        piece(head + i * kPiece, std::min(kPiece, n - head - i * kPiece), 0);
    });
    return spare;
  }

  const RnnOptions o_;
  const RnnLayout l_;
  const RnnWeights<T> weights_;
  size_t reserve_ = 0, mask_ = 0;  // outputs; 0: there is none
  size_t pad_, packed_, recurrent_, h_, state_, value_, gates_, sequences_[2], whole_lengths_;
};

// parameters -> what Rnn reads with `packed`
template <class T>
class PackRnn final : public Plan {
 public:
  PackRnn(const Signature& s, const RnnLayout& l, const RnnOptions& o, int threads)
      : Plan(counted(s, 1, 1), bandwidth_cost(s)), l_(l), weights_(l, o.mode, threads) {
    require_size(s.inputs[0], l_.parameters());
    require_size(s.outputs[0], static_cast<int64_t>(weights_.bytes() / sizeof(float)));
    if (data_type(s.outputs[0]) != DataType::f32) throw Unsupported{};
  }

 private:
  void execute(const Call& call) const override {
    if (!call.wanted(0)) return;
    if (call.adds(0)) throw Error(MX_ERROR_VALUE, "packed parameters are not added to");
    for (int64_t layer = 0; layer < l_.layers; ++layer)
      for (int64_t direction = 0; direction < l_.directions; ++direction)
        weights_.place(call.input<T>(0), layer, direction,
                       call.output<char>(0) + weights_.offset(layer, direction));
  }

  const RnnLayout l_;
  const RnnWeights<T> weights_;
};

int team(const RnnLayout& l) { return rnn_cost(l, 1).parallel() ? team_size() : 1; }

const Spec& data_of(const Signature& s) {
  if (s.inputs.empty() || s.outputs.empty()) throw Unsupported{};
  return s.inputs[0];
}

template <class T>
PackedRnn packed_as(const RnnLayout& layout, const RnnOptions& o) {
  const RnnWeights<T> weights(layout, o.mode, team(layout));
  return {static_cast<int64_t>(weights.bytes() / sizeof(float)), weights.format()};
}

}  // namespace

PlanPtr rnn(const Signature& s, const RnnOptions& o) {
  data_of(s);
  const size_t none = s.inputs.size();
  if (all_double(s, o.has_lengths ? none - 1 : none)) {
    if (o.packed) throw Unsupported{};
    return std::make_unique<Rnn<double>>(s, o);
  }
  if (all_float(s, {o.has_lengths ? none - 1 : none, o.packed ? 1 : none})) return std::make_unique<Rnn<float>>(s, o);
  return std::make_unique<Rnn<BFloat16>>(s, o);
}

PackedRnn packed_rnn(const Signature& s, const RnnOptions& o) {
  const RnnLayout layout(data_of(s).shape, o);
  if (s.inputs[0].dtype == MX_FLOAT32) return packed_as<float>(layout, o);
  if (s.inputs[0].dtype == MX_BFLOAT16) return packed_as<BFloat16>(layout, o);
  throw Unsupported{};
}

PlanPtr pack_rnn(const Signature& s, const Spec& data, const RnnOptions& o) {
  const RnnLayout layout(data.shape, o);
  if (data_of(s).dtype == MX_FLOAT32) return std::make_unique<PackRnn<float>>(s, layout, o, team(layout));
  if (s.inputs[0].dtype == MX_BFLOAT16) return std::make_unique<PackRnn<BFloat16>>(s, layout, o, team(layout));
  throw Unsupported{};
}

}  // namespace mx::cpu
