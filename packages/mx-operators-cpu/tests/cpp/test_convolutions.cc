// SPDX-License-Identifier: Apache-2.0
//
// Convolutions, deconvolutions, fused layers and their gradients against the sums that they stand for.
#include "convolution/convolution.hpp"
#include "convolution/fused_layer.hpp"
#include "convolution/onednn_windows.hpp"
#include "signatures.hpp"

namespace {

// A convolution in two dimensions, (N, C, H, W) or channels last.
struct Problem {
  int64_t images, channels, filters, in, kernel, stride, dilate, pad, groups;
  bool channels_last = false;
  int32_t dtype = MX_FLOAT32;

  int64_t out() const { return (in + 2 * pad - (dilate * (kernel - 1) + 1)) / stride + 1; }
  ConvolutionOptions options() const {
    return {{{kernel, kernel}, {stride, stride}, {dilate, dilate}, {pad, pad}}, groups, channels_last, true};
  }
  Spec tensor(int64_t c, int64_t extent) const {
    return channels_last ? Spec({images, extent, extent, c}, dtype) : Spec({images, c, extent, extent}, dtype);
  }
  Spec data() const { return tensor(channels, in); }
  Spec result() const { return tensor(filters, out()); }
  Spec weight() const {
    const int64_t c = channels / groups;
    return channels_last ? Spec({filters, kernel, kernel, c}, dtype) : Spec({filters, c, kernel, kernel}, dtype);
  }
  Spec bias() const { return {{filters}, dtype}; }
  double tolerance() const { return dtype == MX_FLOAT32 ? 1e-5 : 2e-2; }

  size_t at(int64_t c, int64_t all, int64_t n, int64_t row, int64_t column, int64_t extent) const {
    return static_cast<size_t>(channels_last ? ((n * extent + row) * extent + column) * all + c
                                             : ((n * all + c) * extent + row) * extent + column);
  }
  // Calls body(data, result, weight) with the offsets of every product.
  template <class Body>
  void for_products(const Body& body) const {
    const int64_t c = channels / groups, f = filters / groups, o = out();
    for (int64_t n = 0; n < images; ++n)
      for (int64_t k = 0; k < filters; ++k)
        for (int64_t r = 0; r < o; ++r)
          for (int64_t s = 0; s < o; ++s)
            for (int64_t i = 0; i < kernel; ++i)
              for (int64_t j = 0; j < kernel; ++j) {
                const int64_t y = r * stride + i * dilate - pad, x = s * stride + j * dilate - pad;
                if (y < 0 || y >= in || x < 0 || x >= in) continue;
                for (int64_t q = 0; q < c; ++q)
                  body(at(k / f * c + q, channels, n, y, x, in), at(k, filters, n, r, s, o),
                       static_cast<size_t>(channels_last ? ((k * kernel + i) * kernel + j) * c + q
                                                         : ((k * c + q) * kernel + i) * kernel + j));
              }
  }
  // The channel of an element of the result.
  size_t filter_of(size_t i) const {
    const auto plane = static_cast<size_t>(out() * out()), f = static_cast<size_t>(filters);
    return channels_last ? i % f : i / plane % f;
  }
};

const Problem kEveryProblem[] = {
    {2, 3, 8, 7, 3, 2, 1, 1, 1},                    // a first layer
    {1, 16, 16, 6, 1, 1, 1, 0, 1},                  // pointwise
    {2, 32, 16, 5, 1, 1, 1, 0, 1, true},            // likewise, channels last
    {1, 16, 16, 12, 3, 1, 1, 1, 1},                 // Winograd's
    {2, 32, 32, 14, 3, 1, 1, 1, 1, true},           // likewise, channels last
    {1, 8, 8, 9, 3, 1, 2, 2, 8},                    // depthwise, dilated
    {1, 6, 9, 5, 2, 2, 1, 0, 3},                    // groups
    {1, 16, 16, 6, 3, 1, 1, 1, 1, false, MX_BFLOAT16},
    {1, 1, 3, 5, 4, 3, 1, 3, 1, false, MX_BFLOAT16},  // computed in float32
};

std::vector<Problem> problems() {
  std::vector<Problem> found;
  for (const Problem& p : kEveryProblem)
    if (p.dtype == MX_FLOAT32 || has_bfloat16_kernels()) found.push_back(p);
  return found;
}

Floats sums(const Problem& p, const Floats& x, const Floats& w, const Floats* bias) {
  std::vector<double> y(static_cast<size_t>(p.result().size()));
  p.for_products([&](size_t a, size_t b, size_t c) { y[b] += static_cast<double>(x[a]) * w[c]; });
  Floats made(y.begin(), y.end());
  if (bias != nullptr)
    for (size_t i = 0; i < made.size(); ++i) made[i] += (*bias)[p.filter_of(i)];
  return made;
}

void forward() {
  for (const Problem& p : problems())
    for (bool biased : {false, true}) {
      Signature s{{p.data(), p.weight()}, {p.result()}};
      if (biased) s.inputs.push_back(p.bias());
      const auto in = drawn(s);
      verify(shared(convolution(s, p.options())), s, in, {sums(p, in[0], in[1], biased ? &in[2] : nullptr)},
             p.tolerance());
    }
}

struct Gradients {
  Floats data, weight, bias;
};

Gradients gradients(const Problem& p, const Floats& g, const Floats& x, const Floats& w) {
  std::vector<double> data(x.size()), weight(w.size()), bias(static_cast<size_t>(p.filters));
  p.for_products([&](size_t a, size_t b, size_t c) {
    data[a] += static_cast<double>(g[b]) * w[c];
    weight[c] += static_cast<double>(g[b]) * x[a];
  });
  for (size_t i = 0; i < g.size(); ++i) bias[p.filter_of(i)] += static_cast<double>(g[i]);
  return {Floats(data.begin(), data.end()), Floats(weight.begin(), weight.end()), Floats(bias.begin(), bias.end())};
}

void backward() {
  for (const Problem& p : problems()) {
    const Signature s{{p.result(), p.data(), p.weight()}, {p.data(), p.weight(), p.bias()}};
    const auto in = drawn(s);
    const Gradients want = gradients(p, in[0], in[1], in[2]);
    verify(shared(convolution_backward(s, p.options())), s, in, {want.data, want.weight, want.bias}, p.tolerance());
  }
}

// A deconvolution is the gradient of a convolution with respect to its data.
void deconvolutions() {
  for (const Problem& p : problems()) {
    if (p.channels_last) continue;
    const Signature s{{p.result(), p.weight()}, {p.data()}};
    const auto in = drawn(s);
    const Floats nothing(static_cast<size_t>(p.data().size()));
    verify(shared(deconvolution(s, p.options())), s, in, {gradients(p, in[0], nothing, in[1]).data}, p.tolerance());
    const Signature back{{p.data(), p.result(), p.weight()}, {p.result(), p.weight()}};
    const auto given = drawn(back);
    verify(shared(deconvolution_backward(back, p.options())), back, given,
           {sums(p, given[0], given[2], nullptr), gradients(p, given[1], given[0], given[2]).weight}, p.tolerance());
  }
}

// A weight with its channels after the filters, whose channels are last.
Floats channels_first(const Problem& p, const Floats& weight) {
  const int64_t c = p.channels / p.groups, plane = p.kernel * p.kernel;
  Floats made(weight.size());
  for (int64_t k = 0; k < p.filters; ++k)
    for (int64_t i = 0; i < plane; ++i)
      for (int64_t q = 0; q < c; ++q)
        made[static_cast<size_t>((k * c + q) * plane + i)] = weight[static_cast<size_t>((k * plane + i) * c + q)];
  return made;
}

enum class Weight { plain, packed, packed_from_channels_first };

void fused_layers() {
  for (const Problem& p : problems())
    for (const Weight kind : {Weight::plain, Weight::packed, Weight::packed_from_channels_first}) {
      const bool packed = kind != Weight::plain, first = kind == Weight::packed_from_channels_first && p.channels_last;
      if (p.dtype != MX_FLOAT32) continue;
      FusedOptions options;
      options.convolution = p.options();
      options.weight_shape = p.weight().shape;
      options.biased = options.residual = true;
      options.activation = "relu";
      const Signature plain{{p.data(), p.weight(), p.bias(), p.result()}, {p.result()}};
      const auto in = drawn(plain);
      Floats want = sums(p, in[0], in[1], &in[2]);
      for (size_t i = 0; i < want.size(); ++i) want[i] = std::fmax(0.0f, want[i] + in[3][i]);
      try {
        Signature s = plain;
        std::vector<Floats> given = in;
        options.packed = packed;
        if (packed) {
          s.inputs[1] = Spec({packed_weight_size(plain, options)}, MX_FLOAT32);
          const Signature order{{p.weight()}, {s.inputs[1]}};
          const Floats weight = first ? channels_first(p, in[1]) : in[1];
          given[1] = computed(shared(pack_weight(order, s, options, kind != Weight::packed)), order, {weight})[0];
        }
        verify(shared(fused_layer(s, options)), s, given, {want}, p.tolerance());
      } catch (const Unsupported&) {  // a layer and an addition of their own are as fast
      }
    }
}

}  // namespace

int main() {
  return test::run({{"forward", forward}, {"backward", backward}, {"deconvolutions", deconvolutions},
                    {"fused layers", fused_layers}});
}
