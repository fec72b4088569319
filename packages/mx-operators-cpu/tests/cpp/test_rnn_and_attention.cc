// SPDX-License-Identifier: Apache-2.0
//
// Recurrent stacks and attention: against plain loops where those are short, else run with every request and option.
#include "attention/attention.hpp"
#include "rnn/rnn.hpp"
#include "common/shape.hpp"
#include "rnn/rnn_layout.hpp"
#include "signatures.hpp"

namespace {

// A plain recurrent layer with tanh, step by step.
void a_layer() {
  const int64_t steps = 4, batch = 3, input = 5, units = 6;
  RnnOptions o;
  o.mode = RnnMode::tanh, o.units = units;
  const RnnLayout l({steps, batch, input}, o);
  const Signature s{{Spec({steps, batch, input}, MX_FLOAT32), Spec({l.parameters()}, MX_FLOAT32),
                     Spec({1, batch, units}, MX_FLOAT32)},
                    {Spec({steps, batch, units}, MX_FLOAT32)}};
  const auto in = drawn(s);
  Floats want, state = in[2];
  for (int64_t t = 0; t < steps; ++t) {
    Floats next(state.size());
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t u = 0; u < units; ++u) {
        double sum = in[1][static_cast<size_t>(l.b_w(0, 0) + u)] + in[1][static_cast<size_t>(l.b_r(0, 0) + u)];
        for (int64_t i = 0; i < input; ++i)
          sum += in[1][static_cast<size_t>(l.w(0, 0) + u * input + i)] * in[0][static_cast<size_t>((t * batch + n) * input + i)];
        for (int64_t i = 0; i < units; ++i)
          sum += in[1][static_cast<size_t>(l.r(0, 0) + u * units + i)] * state[static_cast<size_t>(n * units + i)];
        next[static_cast<size_t>(n * units + u)] = static_cast<float>(std::tanh(sum));
      }
    state = next;
    want.insert(want.end(), state.begin(), state.end());
  }
  verify(shared(rnn(s, o)), s, in, {want}, 1e-5);
}

// Both directions of a stack with every request; what a run gives does not depend on threads.
void stack(RnnMode mode, int64_t layers, int64_t directions, bool lengths, int32_t dtype, int64_t units) {
  RnnOptions o;
  o.mode = mode, o.layers = layers, o.directions = directions, o.units = units;
  o.state_outputs = o.is_train = true;
  o.has_lengths = lengths;
  const int64_t steps = 5, batch = 4, input = 3;
  const RnnLayout l({steps, batch, input}, o);
  const Spec x({steps, batch, input}, dtype), parameters({l.parameters()}, dtype),
      state({layers * directions, batch, units}, dtype), y({steps, batch, directions * units}, dtype);
  Signature s{{x, parameters, state}, {y, state}};
  if (l.cell_state) s.inputs.push_back(state), s.outputs.push_back(state);
  if (lengths) s.inputs.push_back(Spec({batch}, MX_FLOAT32));
  if (l.reserve() > 0) s.outputs.push_back(Spec({l.reserve()}, dtype));
  auto in = drawn(s);
  for (float& w : in[1]) w *= 0.3f;
  if (lengths) in.back() = {5, 0, 3, 1};
  const Shared plan = shared(rnn(s, o));
  const auto out = computed(plan, s, in);
  for (const Floats& values : {out[0], out[1]}) CHECK(finite(values));
  CHECK(computed(plan, s, in, MX_REQ_WRITE, 1)[0] == out[0]);
  for (uint8_t request : kRequests) computed(plan, s, in, request);

  Signature back;
  std::vector<Floats> given;
  const size_t states = l.cell_state ? 2 : 1;
  for (size_t i = 0; i < 1 + states; ++i) back.inputs.push_back(s.outputs[i]), given.push_back(out[i]);
  for (size_t i = 0; i < s.inputs.size(); ++i) back.inputs.push_back(s.inputs[i]), given.push_back(in[i]);
  back.inputs.push_back(y), given.push_back(out[0]);
  if (l.reserve() > 0) back.inputs.push_back(s.outputs.back()), given.push_back(out.back());
  for (size_t i = 0; i < 2 + states; ++i) back.outputs.push_back(s.inputs[i]);
  const Shared gradient = shared(rnn_backward(back, o));
  for (const Floats& values : computed(gradient, back, given)) CHECK(finite(values));
  for (uint8_t request : kRequests) computed(gradient, back, given, request);
}

void stacks() {
  for (RnnMode mode : {RnnMode::relu, RnnMode::tanh, RnnMode::gru, RnnMode::lstm})
    for (int32_t dtype : primitive_types())
      for (bool lengths : {false, true}) {
        stack(mode, 1, 1, lengths, dtype, 6);
        stack(mode, 2, 2, lengths, dtype, 17);
      }
}

void a_refused_length() {
  RnnOptions o;
  o.mode = RnnMode::tanh, o.units = 2, o.has_lengths = true;
  const RnnLayout l({3, 2, 2}, o);
  const Signature s{{Spec({3, 2, 2}, MX_FLOAT32), Spec({l.parameters()}, MX_FLOAT32), Spec({1, 2, 2}, MX_FLOAT32),
                     Spec({2}, MX_FLOAT32)},
                    {Spec({3, 2, 2}, MX_FLOAT32)}};
  auto in = drawn(s);
  const Shared plan = shared(rnn(s, o));
  for (float wrong : {-1.0f, 4.0f, NAN}) {
    in[3] = {1, wrong};
    Arrays given(s.inputs, in), made(s.outputs, {});
    CHECK(run(plan, given.tensors(), made.tensors()) == MX_ERROR_INDEX);
  }
  in[3] = {1, 3};
  computed(plan, s, in);
}

void fused_heads() {
  for (int32_t dtype : primitive_types())
    for (int64_t queries : {1, 5, 70}) {
      const int64_t batch = 2, heads = 3, keys = 37, depth = 8, width = 4;
      const Spec q({batch, queries, heads * depth}, dtype), k({batch, keys, heads * depth}, dtype),
          v({batch, keys, heads * width}, dtype), y({batch, queries, heads * width}, dtype);
      const Signature s{{q, k, v}, {y}};
      const auto in = drawn(s);
      Floats want;
      for (int64_t n = 0; n < batch; ++n)
        for (int64_t i = 0; i < queries; ++i)
          for (int64_t h = 0; h < heads; ++h) {
            std::vector<double> score(static_cast<size_t>(keys)), mixed(static_cast<size_t>(width));
            double sum = 0;
            for (int64_t j = 0; j < keys; ++j) {
              double dot = 0;
              for (int64_t d = 0; d < depth; ++d)
                dot += static_cast<double>(in[0][static_cast<size_t>(((n * queries + i) * heads + h) * depth + d)]) *
                       in[1][static_cast<size_t>(((n * keys + j) * heads + h) * depth + d)];
              sum += score[static_cast<size_t>(j)] = std::exp(0.5 * dot);
            }
            for (int64_t j = 0; j < keys; ++j)
              for (int64_t d = 0; d < width; ++d)
                mixed[static_cast<size_t>(d)] += score[static_cast<size_t>(j)] / sum *
                                                 in[2][static_cast<size_t>(((n * keys + j) * heads + h) * width + d)];
            want.insert(want.end(), mixed.begin(), mixed.end());
          }
      verify(shared(fused_attention(s, {heads, 0.5})), s, in, {want}, dtype == MX_FLOAT32 ? 1e-5 : 2e-2);
    }
}

void interleaved_heads() {
  const int64_t length = 6, batch = 2, heads = 3, size = 4;
  const Spec projections({length, batch, heads * 3 * size}, MX_FLOAT32), scores({batch * heads, length, length}, MX_FLOAT32),
      values({length, batch, heads * size}, MX_FLOAT32);
  const AttentionOptions o{heads, 3};
  const Signature of_scores{{projections}, {scores}}, of_values{{projections, scores}, {values}};
  const Signature scores_back{{scores, projections}, {projections}},
      values_back{{values, projections, scores}, {projections, scores}};
  for (uint8_t request : kRequests) {
    computed(shared(attention_scores(of_scores, o)), of_scores, drawn(of_scores), request);
    computed(shared(attention_values(of_values, o)), of_values, drawn(of_values), request);
    computed(shared(attention_scores_backward(scores_back, o)), scores_back, drawn(scores_back), request);
    computed(shared(attention_values_backward(values_back, o)), values_back, drawn(values_back), request);
  }
}

}  // namespace

int main() {
  return test::run({{"a layer", a_layer}, {"stacks", stacks}, {"a refused length", a_refused_length},
                    {"fused heads", fused_heads}, {"interleaved heads", interleaved_heads}});
}
