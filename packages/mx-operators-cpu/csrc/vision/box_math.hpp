// SPDX-License-Identifier: Apache-2.0
//
// Geometry of boxes: corner form (x0, y0, x1, y1), centre form (x, y, width, height).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "common/clones.hpp"
#include "common/scratch.hpp"

namespace mx::cpu {

template <class T>
struct Box {
  T a, b, c, d;
};

template <class T>
inline Box<T> box_at(const T* x) {
  return {x[0], x[1], x[2], x[3]};
}
template <class T>
inline Box<T> to_corner(const Box<T>& x) {
  return {x.a - x.c / 2, x.b - x.d / 2, x.a + x.c / 2, x.b + x.d / 2};
}
template <class T>
inline Box<T> to_center(const Box<T>& x) {
  return {(x.a + x.c) / 2, (x.b + x.d) / 2, x.c - x.a, x.d - x.b};
}

// 0 where a side is negative.
template <class T>
inline T area(const Box<T>& x) {
  const T width = x.c - x.a, height = x.d - x.b;
  return width < 0 || height < 0 ? T(0) : width * height;
}

// A box in corner form relative to an anchor.
template <class T>
inline Box<T> encoded(const Box<T>& corners, const Box<T>& anchor_corners) {
  const Box<T> box = to_center(corners), anchor = to_center(anchor_corners);
  return {(box.a - anchor.a) / anchor.c, (box.b - anchor.b) / anchor.d, std::log(box.c / anchor.c),
          std::log(box.d / anchor.d)};
}

// Corner form of the box that `offset` describes, relative to an anchor in centre form.
template <class T>
inline Box<T> decoded(const Box<T>& offset, const Box<T>& anchor) {
  return to_corner(Box<T>{offset.a * anchor.c + anchor.a, offset.b * anchor.d + anchor.b,
                          std::exp(offset.c) * anchor.c, std::exp(offset.d) * anchor.d});
}

// Boxes in corner form, one array per coordinate, with their areas.
template <class T>
struct Boxes {
  // Numbers of `n` boxes.
  static constexpr size_t numbers(int64_t n) { return 5 * static_cast<size_t>(n); }
  // `given`: memory for them.
  Boxes(int64_t n, Span<T> given) : memory(given.data()), count(n) {}
  T* memory;
  int64_t count;
  T* part(int64_t i) const { return memory + i * count; }
  void set(int64_t i, const Box<T>& box) const {
    const T values[5] = {box.a, box.b, box.c, box.d, area(box)};
    for (int64_t k = 0; k < 5; ++k) part(k)[i] = values[k];
  }
  Box<T> at(int64_t i) const { return {part(0)[i], part(1)[i], part(2)[i], part(3)[i]}; }
};

// to[i] = intersection over union of a box with box begin + i; 0 where nothing intersects.
void overlaps(float* to, const Box<float>& box, const Boxes<float>& others, int64_t begin, int64_t end);
void overlaps(double* to, const Box<double>& box, const Boxes<double>& others, int64_t begin, int64_t end);

// Greedy suppression of boxes that are sorted, best first: what survives.  `classes` may be null, when
// all boxes compete.  A box goes if a surviving better one overlaps it by more, or by as much if `closed`.
// Overwrites boxes and classes.
template <class T>
Span<uint8_t> suppress(const Boxes<T>& boxes, T* classes, double threshold, bool closed, Arena& arena);
// Bytes of the arena that it takes for up to n boxes.
size_t suppress_bytes(int64_t n);

extern template Span<uint8_t> suppress(const Boxes<float>&, float*, double, bool, Arena&);
extern template Span<uint8_t> suppress(const Boxes<double>&, double*, double, bool, Arena&);

}  // namespace mx::cpu
