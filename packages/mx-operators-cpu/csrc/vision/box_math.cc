// SPDX-License-Identifier: Apache-2.0
#include "vision/box_math.hpp"

#include <numeric>

namespace mx::cpu {
namespace {

template <class T>
MX_INLINE void overlaps_of(T* __restrict to, const Box<T>& box, const T* x0, const T* y0, const T* x1, const T* y1,
                           const T* areas, int64_t n) {
  const T own = area(box);
  for (int64_t i = 0; i < n; ++i) {
    const T width = (box.c < x1[i] ? box.c : x1[i]) - (box.a > x0[i] ? box.a : x0[i]);
    const T height = (box.d < y1[i] ? box.d : y1[i]) - (box.b > y0[i] ? box.b : y0[i]);
    const T common = (width > 0) & (height > 0) ? width * height : T(0);
    const T joined = own + areas[i] - common;
    to[i] = (common > 0) & (joined > 0) ? common / joined : T(0);
  }
}

MX_ROUNDED_CLONES(void, overlaps_float, (float* to, const Box<float>& box, const float* x0, const float* y0,
                                         const float* x1, const float* y1, const float* areas, int64_t n),
                  (to, box, x0, y0, x1, y1, areas, n)) {
  overlaps_of(to, box, x0, y0, x1, y1, areas, n);
}
MX_ROUNDED_CLONES(void, overlaps_double, (double* to, const Box<double>& box, const double* x0, const double* y0,
                                          const double* x1, const double* y1, const double* areas, int64_t n),
                  (to, box, x0, y0, x1, y1, areas, n)) {
  overlaps_of(to, box, x0, y0, x1, y1, areas, n);
}

}  // namespace

void overlaps(float* to, const Box<float>& box, const Boxes<float>& others, int64_t begin, int64_t end) {
  overlaps_float(to, box, others.part(0) + begin, others.part(1) + begin, others.part(2) + begin,
                 others.part(3) + begin, others.part(4) + begin, end - begin);
}
void overlaps(double* to, const Box<double>& box, const Boxes<double>& others, int64_t begin, int64_t end) {
  overlaps_double(to, box, others.part(0) + begin, others.part(1) + begin, others.part(2) + begin,
                  others.part(3) + begin, others.part(4) + begin, end - begin);
}

// Boxes that are gone are now and then left out, so that little is compared in vain.
template <class T>
Span<uint8_t> suppress(const Boxes<T>& boxes, T* classes, double threshold, bool closed, Arena& arena) {
  const auto limit = static_cast<T>(threshold);
  const int64_t all = boxes.count;
  int64_t n = all;
  const auto size = static_cast<size_t>(all);
  const Span<uint8_t> survives = arena.filled<uint8_t>(size, 1), gone = arena.filled<uint8_t>(size, 0);
  const Span<int64_t> place = arena.take<int64_t>(size);
  std::iota(place.begin(), place.end(), 0);
  const Span<T> ratio = arena.take<T>(size);
  for (int64_t i = 0, fallen = 0; i + 1 < n; ++i) {
    if (gone[static_cast<size_t>(i)] != 0) continue;
    overlaps(ratio.data(), boxes.at(i), boxes, i + 1, n);
    uint8_t* rest = gone.data() + i + 1;
    int64_t more = 0;
    for (int64_t j = 0; j < n - i - 1; ++j) {
      const bool over = closed ? ratio[static_cast<size_t>(j)] >= limit : ratio[static_cast<size_t>(j)] > limit;
      const bool rivals = classes == nullptr || classes[i + 1 + j] == classes[i];
      const uint8_t falls = over & rivals & (rest[j] == 0);
      rest[j] |= falls;
      more += falls;
    }
    fallen += more;
    if (fallen < (n - i) / 4) continue;
    int64_t to = i + 1;
    for (int64_t j = i + 1; j < n; ++j) {
      if (gone[static_cast<size_t>(j)] != 0) {
        survives[static_cast<size_t>(place[static_cast<size_t>(j)])] = 0;
        continue;
      }
      for (int64_t k = 0; k < 5; ++k) boxes.part(k)[to] = boxes.part(k)[j];
      if (classes != nullptr) classes[to] = classes[j];
      place[static_cast<size_t>(to)] = place[static_cast<size_t>(j)];
      gone[static_cast<size_t>(to++)] = 0;
    }
    n = to;
    fallen = 0;
  }
  for (int64_t j = 0; j < n; ++j)
    if (gone[static_cast<size_t>(j)] != 0) survives[static_cast<size_t>(place[static_cast<size_t>(j)])] = 0;
  return survives;
}

size_t suppress_bytes(int64_t n) {
  const auto all = static_cast<size_t>(n);
  return arena_bytes({all, all, all * sizeof(int64_t), all * sizeof(double)});
}

template Span<uint8_t> suppress(const Boxes<float>&, float*, double, bool, Arena&);
template Span<uint8_t> suppress(const Boxes<double>&, double*, double, bool, Arena&);

}  // namespace mx::cpu
