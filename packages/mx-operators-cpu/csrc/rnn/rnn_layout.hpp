// SPDX-License-Identifier: Apache-2.0
//
// Where the parts of a recurrent stack lie in its parameters and in its reserve; the layouts are
// the operator's (mx_operators.rnn.weights and mx_operators.rnn.reserve).
#pragma once

#include "rnn/rnn.hpp"

namespace mx::cpu {

struct RnnLayout {
  int64_t steps, batch, input, units, layers, directions, gates;
  bool cell_state;
  bool keeps_gates;  // in the reserve

  // Throws Unsupported for a mode or shapes that do not belong together.
  RnnLayout(const Dims& data, const RnnOptions& o)
      : steps(extent(data, 0)), batch(extent(data, 1)), input(extent(data, 2)), units(o.units), layers(o.layers),
        directions(o.directions), gates(o.mode == RnnMode::lstm ? 4 : o.mode == RnnMode::gru ? 3 : 1),
        cell_state(o.mode == RnnMode::lstm), keeps_gates(gates > 1) {
    if (data.size() != 3 || units < 1 || layers < 1 || directions < 1 || directions > 2) throw Unsupported{};
  }

  int64_t rows() const { return gates * units; }             // of the weights
  int64_t width() const { return directions * units; }       // of an output
  int64_t width(int64_t layer) const { return layer == 0 ? input : width(); }  // of what a layer reads
  int64_t state() const { return batch * units; }
  int64_t sequence() const { return steps * batch * width(); }
  int64_t stack(int64_t layer, int64_t direction) const { return layer * directions + direction; }

  // Offsets in the parameters.
  int64_t w(int64_t layer, int64_t direction) const {
    const int64_t above = std::max<int64_t>(layer - 1, 0);
    const int64_t below = (layer > 0 ? directions * (input + units) : 0) + above * directions * (width() + units);
    return rows() * (below + direction * (width(layer) + units));
  }
  int64_t r(int64_t layer, int64_t direction) const { return w(layer, direction) + rows() * width(layer); }
  int64_t b_w(int64_t layer, int64_t direction) const { return w(layers, 0) + rows() * 2 * stack(layer, direction); }
  int64_t b_r(int64_t layer, int64_t direction) const { return b_w(layer, direction) + rows(); }
  int64_t parameters() const { return b_w(layers, 0); }

  // Offsets in the reserve: gates (T, N, G, H), a value per unit (T, N, H), outputs of a layer.
  int64_t kept_gates(int64_t layer, int64_t direction) const {
    return keeps_gates ? stack(layer, direction) * steps * batch * (rows() + units) : 0;
  }
  int64_t kept_values(int64_t layer, int64_t direction) const {
    return kept_gates(layer, direction) + steps * batch * rows();
  }
  int64_t kept_outputs(int64_t layer) const { return kept_gates(layers, 0) + layer * sequence(); }
  int64_t reserve() const { return kept_outputs(layers - 1); }
};

// The step that follows in a direction's running order.
inline int64_t running(int64_t i, int64_t steps, int64_t direction) { return direction == 0 ? i : steps - 1 - i; }

}  // namespace mx::cpu
