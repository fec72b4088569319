// SPDX-License-Identifier: Apache-2.0
//
// Products, sums, reshapes and elementwise operations one after another, by their definitions and in double, on tensors
// with strides.  A reshape reads the memory of its input with the extents and strides of its output.
#pragma once

#include "fake_convolution.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace fake {

struct Operation {
  enum Kind { kPointwise, kMatmul, kSum, kReshape };
  Kind kind = kPointwise;
  int mode = 0;  // cudnnPointwiseMode_t
  Tensor a, b, y;
  bool two = false, a_by_value = false, b_by_value = false;

  const char* name() const {
    switch (kind) {
      case kMatmul: return "matmul";
      case kSum: return "sum";
      case kReshape: return "reshape";
      default: return mode == 1 ? "multiply" : mode == 9 ? "subtract" : "exp";
    }
  }
  // Why it cannot be, or null.
  const char* refusal() const {
    const size_t n = y.extents.size();
    if (a.extents.size() != n || (two && b.extents.size() != n)) return "numbers of axes that differ";
    const auto spreads = [&](const Tensor& t) {
      for (size_t i = 0; i < n; ++i) {
        if (t.extents[i] != 1 && t.extents[i] != y.extents[i]) return false;
      }
      return true;
    };
    int64_t of_a = 1, of_y = 1;
    for (size_t i = 0; i < n; ++i) {
      of_a *= a.extents[i];
      of_y *= y.extents[i];
    }
    switch (kind) {
      case kPointwise:
        if (mode != 1 && mode != 9 && mode != 13) return "mode of an elementwise operation";
        if (two != (mode != 13)) return "operands of an elementwise operation";
        return a.extents == y.extents && (!two || spreads(b)) ? nullptr : "extents of an elementwise operation";
      case kSum:
        for (size_t i = 0; i < n; ++i) {
          if (y.extents[i] != 1 && y.extents[i] != a.extents[i]) return "extents of a sum";
        }
        return nullptr;
      case kReshape: return of_a == of_y ? nullptr : "elements of a reshape";
      case kMatmul: break;
    }
    const auto outer = [&](const Tensor& t) {
      return std::equal(t.extents.begin(), t.extents.end() - 2, y.extents.begin());
    };
    const bool fit = n > 2 && outer(a) && outer(b) && a.extents[n - 1] == b.extents[n - 2] &&
                     a.extents[n - 2] == y.extents[n - 2] && b.extents[n - 1] == y.extents[n - 1];
    return fit ? nullptr : "extents of a product";
  }
};

struct OperationGraph {
  std::vector<Operation> operations;

  bool there() const { return !operations.empty(); }
  // Why it cannot be, or null: what lies between operations is made before it is read, and something is written.
  const char* refusal() const {
    std::set<int64_t> made;
    bool written = false;
    for (const Operation& each : operations) {
      for (const Tensor* t : {&each.a, &each.b}) {
        const bool read = t == &each.a || each.two;
        if (read && t->is_virtual && made.count(t->id) == 0) return "it is read before it is made";
      }
      if (!made.insert(each.y.id).second) return "it is made twice";
      written = written || !each.y.is_virtual;
      if (const char* found = each.refusal()) return found;
    }
    return written ? nullptr : "nothing is written";
  }
  // Those in memory, and the ids of numbers of the host.
  std::vector<const Tensor*> tensors() const {
    std::map<int64_t, const Tensor*> found;
    for (const Operation& each : operations) {
      if (!each.a.is_virtual && !each.a_by_value) found[each.a.id] = &each.a;
      if (each.two && !each.b.is_virtual && !each.b_by_value) found[each.b.id] = &each.b;
      if (!each.y.is_virtual) found[each.y.id] = &each.y;
    }
    std::vector<const Tensor*> made;
    for (const auto& [id, tensor] : found) made.push_back(tensor);
    return made;
  }
  std::set<int64_t> numbers() const {
    std::set<int64_t> found;
    for (const Operation& each : operations) {
      if (each.a_by_value) found.insert(each.a.id);
      if (each.two && each.b_by_value) found.insert(each.b.id);
    }
    return found;
  }

  // `data`: where the tensor with an id lies; `number`: that of an id.
  template <class Data, class Number> void compute(const Data& data, const Number& number) const {
    std::map<int64_t, std::map<int64_t, double>> between;  // by id and place
    const auto place = [](const Tensor& t, const std::vector<int64_t>& index) {
      int64_t made = 0;
      for (size_t i = 0; i < index.size(); ++i) made += (t.extents[i] == 1 ? 0 : index[i]) * t.strides[i];
      return made;
    };
    const auto read = [&](const Tensor& t, bool by_value, int64_t at) {
      if (by_value) return static_cast<double>(number(t.id));
      return t.is_virtual ? between.at(t.id).at(at) : t.get(data(t.id), at);
    };
    const auto write = [&](const Tensor& t, int64_t at, double value) {
      if (t.is_virtual) {
        between[t.id][at] = value;
      } else {
        t.put(data(t.id), at, value);
      }
    };
    for (const Operation& o : operations) {
      if (o.kind == Operation::kSum) {
        std::map<int64_t, double> sums;
        each(o.a.extents, [&](const auto& at) { sums[place(o.y, at)] += read(o.a, o.a_by_value, place(o.a, at)); });
        for (const auto& [at, sum] : sums) write(o.y, at, sum);
        continue;
      }
      each(o.y.extents, [&](const auto& at) {
        const int64_t here = place(o.y, at);
        if (o.kind == Operation::kReshape) return write(o.y, here, read(o.a, o.a_by_value, here));
        if (o.kind == Operation::kMatmul) {
          std::vector<int64_t> left = at, right = at;
          const size_t last = at.size() - 1;
          double sum = 0;
          for (int64_t k = 0; k < o.a.extents[last]; ++k) {
            left[last] = right[last - 1] = k;
            sum += read(o.a, o.a_by_value, place(o.a, left)) * read(o.b, o.b_by_value, place(o.b, right));
          }
          return write(o.y, here, sum);
        }
        const double x = read(o.a, o.a_by_value, place(o.a, at));
        if (!o.two) return write(o.y, here, std::exp(x));
        const double y = read(o.b, o.b_by_value, place(o.b, at));
        write(o.y, here, o.mode == 1 ? x * y : x - y);
      });
    }
  }

  std::string text() const {
    std::string made = "graph";
    for (const Operation& each : operations) made += std::string(" ") + each.name();
    for (const Tensor* t : tensors()) made += " " + std::to_string(t->id) + "=" + t->text();
    return made;
  }
};

}  // namespace fake
