// SPDX-License-Identifier: Apache-2.0
//
// Gradients of filters by oneDNN without waits: its threads wait for each other in a loop that does not let go of the
// processor.  Where somebody else wants it, too, such a wait takes a time slice, some milliseconds.  So each thread
// makes the gradient of a share of the batch with a primitive of one thread.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "convolution/convolution_shape.hpp"
#include "simd/loops.hpp"

namespace mx::cpu {

// `data` and `out`: as they are, or a share of them.
template <class Backward, class Hint>
typename Backward::primitive_desc filter_descriptor(const ConvolutionShape& shape, const Hint& hint,
                                                    const MemoryDesc& data, const MemoryDesc& weight,
                                                    const MemoryDesc& bias, const MemoryDesc& out) {
  const Window& w = shape.window;
  return {describing_engine(), shape.kind, data, weight, bias, out, w.stride, w.dilate, w.pad, shape.pad_end, hint,
          ProgramBuilder::attributes()};
}

// Below, a gradient that cannot be shared gets one thread: estimated microseconds.
constexpr double kTimeSlice = 1000;

// The first of some images of a layout.
inline MemoryDesc images_of(const MemoryDesc& desc, int64_t images) {
  Dims dims = desc.get_dims();
  dims[0] = images;
  return desc.submemory_desc(dims, Dims(dims.size(), 0));
}

inline size_t bytes_of_image(const MemoryDesc& desc) {
  return static_cast<size_t>(desc.get_strides()[0]) * dnnl::memory::data_type_size(desc.get_data_type());
}

// Whether images lie one after the other.
inline bool in_order(const MemoryDesc& desc, int64_t images) {
  return desc.get_format_kind() == dnnl::memory::format_kind::blocked &&
         desc.get_size() == bytes_of_image(desc) * static_cast<size_t>(images);
}

// The gradient of filters of a batch, and those of shares of it in the same layouts, each for one thread.
template <class Backward>
struct FilterShares {
  using Description = typename Backward::primitive_desc;
  struct Share {
    size_t first;  // image
    Description desc;
  };
  Description whole;
  std::vector<Share> each;
};

// Nothing where that is not worth it, or oneDNN has no such kernel.
template <class Backward, class Hint>
std::optional<FilterShares<Backward>> filter_shares(const ConvolutionShape& shape, const Hint& hint, const MemoryDesc& bias) {
  const Dims x = shape.data.get_dims(), w = shape.weight.get_dims(), y = shape.out.get_dims();
  const int64_t images = x[0], shares = std::min<int64_t>(team_size(), images);
  if (shares < 2 || 2 * shares * product(w) > product(x) + product(y)) return std::nullopt;
  const TeamScope alone(1);
  const auto describe = [&](const MemoryDesc& data, const MemoryDesc& weight, const MemoryDesc& out) {
    return filter_descriptor<Backward>(shape, hint, data, weight, bias, out);
  };
  try {
    FilterShares<Backward> made{describe(shape.in_weight_gradient(shape.data),
                                         {w, DataType::f32, dnnl::memory::format_tag::any},
                                         shape.in_weight_gradient(shape.out)), {}};
    const MemoryDesc data = made.whole.src_desc(), out = made.whole.diff_dst_desc();
    if (!in_order(data, images) || !in_order(out, images)) return std::nullopt;
    for (int64_t share = 0; share < shares; ++share) {
      const int64_t first = images * share / shares, n = images * (share + 1) / shares - first;
      made.each.push_back({static_cast<size_t>(first), describe(images_of(data, n), made.whole.diff_weights_desc(),
                                                                images_of(out, n))});
    }
    return made;
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_unimplemented) throw;
    return std::nullopt;
  }
}

// Adds floats of the other slots to those of the first.
inline void add_sum(ProgramBuilder& builder, const std::vector<Slot>& parts, const MemoryDesc& desc, OutputMask mask) {
  constexpr int64_t kGrain = 8192;
  builder.host(
      [=, n = static_cast<int64_t>(desc.get_size() / sizeof(float))](void* const* slots, const Call&) {
        parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
          for (size_t k = 1; k < parts.size(); ++k)
            loops().add_scaled[0](static_cast<float*>(slots[parts[0]]) + begin,
                                  static_cast<const float*>(slots[parts[k]]) + begin, 1,
                                  static_cast<size_t>(end - begin));
        });
      },
      parts, mask);
}

}  // namespace mx::cpu
