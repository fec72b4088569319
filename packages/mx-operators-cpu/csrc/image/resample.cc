// SPDX-License-Identifier: Apache-2.0
#include "image/resample.hpp"

#include <algorithm>
#include <cstring>

#include "simd/loops.hpp"
#include "indexing/strided_copy.hpp"
#include "simd/accumulate.hpp"
#include "common/parallel.hpp"

namespace mx::cpu {
namespace {

bool valid(const Mixing& m, int64_t extent) {
  if (m.begins.empty() || m.begins.front() != 0 || m.columns.size() != m.weights.size() ||
      m.begins.back() != static_cast<int64_t>(m.columns.size()) || !std::is_sorted(m.begins.begin(), m.begins.end()))
    return false;
  return std::all_of(m.columns.begin(), m.columns.end(), [&](int64_t c) { return c >= 0 && c < extent; });
}

class ResamplePlan final : public Plan {
 public:
  ResamplePlan(std::vector<Spec> inputs, std::vector<Spec> outputs, int64_t height, int64_t width, Mixing rows,
               Mixing columns)
      : Plan(std::move(inputs), std::move(outputs)),
        height_(height),
        width_(width),
        rows_(std::move(rows)),
        columns_(std::move(columns)),
        table_(loops()),
        type_(compute_of(outputs_[0].dtype)),
        columns_first_(height_ < rows_.rows()) {
    const int64_t between = columns_first_ ? height_ * columns_.rows() : rows_.rows() * width_;
    const int64_t numbers = height_ * width_ + between + rows_.rows() * columns_.rows();
    memory_ = add_thread_scratch(static_cast<size_t>(numbers) * (type_ == F64 ? sizeof(double) : sizeof(float)));
  }

 protected:
  void execute(const Call& call) const override {
    if (!call.wanted(0)) return;
    const int64_t in = height_ * width_, out = rows_.rows() * columns_.rows();
    if (out == 0) return;
    const int64_t planes = outputs_[0].size() / out;
    const int64_t grain = std::max<int64_t>(1, (16 << 10) / (in + out + 1));
    parallel_for(planes, grain, [&](int64_t begin, int64_t end, int thread) {
      char* memory = memory_.of(call, thread);
      for (int64_t plane = begin; plane < end; ++plane)
        type_ == F64 ? resample(call, plane, in, out, reinterpret_cast<double*>(memory))
                     : resample(call, plane, in, out, reinterpret_cast<float*>(memory));
    });
  }

 private:
  template <class T>
  void resample(const Call& call, int64_t plane, int64_t in, int64_t out, T* memory) const {
    const int dtype = outputs_[0].dtype;
    const auto item = static_cast<int64_t>(item_size(dtype));
    const int64_t between = columns_first_ ? height_ * columns_.rows() : rows_.rows() * width_;
    T *data = memory, *mixed = memory + in, *made = mixed + between;
    const char* from = call.input(0) + plane * in * item;
    char* to = call.output(0) + plane * out * item;
    const bool same = dtype == kStorageOf[type_];
    const T* x = same ? reinterpret_cast<const T*>(from) : data;
    if (!same) table_.load[dtype][type_](data, from, static_cast<size_t>(in));
    T* y = same && !call.adds(0) ? reinterpret_cast<T*>(to) : made;
    if (columns_first_) {
      mix_columns(x, height_, mixed);
      mix_rows(mixed, columns_.rows(), y);
    } else {
      mix_rows(x, width_, mixed);
      mix_columns(mixed, rows_.rows(), y);
    }
    if (y != made) return;
    if (!same) {
      char* stored = reinterpret_cast<char*>(memory);  // input and mixed rows are done with
      table_.store[type_][dtype](call.adds(0) ? stored : to, made, static_cast<size_t>(out));
      if (call.adds(0)) accumulate(dtype, to, stored, out);
    } else {
      accumulate(dtype, to, reinterpret_cast<const char*>(made), out);
    }
  }

  template <class T>
  void mix_rows(const T* x, int64_t width, T* y) const {
    for (int64_t i = 0; i < rows_.rows(); ++i) {
      T* to = y + i * width;
      std::fill_n(to, width, T(0));
      for (int64_t e = rows_.begins[static_cast<size_t>(i)]; e < rows_.begins[static_cast<size_t>(i) + 1]; ++e)
        table_.add_scaled[type_ == F64](to, x + rows_.columns[static_cast<size_t>(e)] * width,
                                        rows_.weights[static_cast<size_t>(e)], static_cast<size_t>(width));
    }
  }

  template <class T>
  void mix_columns(const T* x, int64_t height, T* y) const {
    const int64_t n = columns_.rows();
    for (int64_t i = 0; i < height; ++i, x += width_, y += n) {
      for (int64_t j = 0; j < n; ++j) {
        T sum = T(0);
        for (int64_t e = columns_.begins[static_cast<size_t>(j)]; e < columns_.begins[static_cast<size_t>(j) + 1]; ++e)
          sum += static_cast<T>(columns_.weights[static_cast<size_t>(e)]) * x[columns_.columns[static_cast<size_t>(e)]];
        y[j] = sum;
      }
    }
  }

  const int64_t height_, width_;
  const Mixing rows_, columns_;
  const LoopTable& table_;
  const Compute type_;
  const bool columns_first_;
  PerThread memory_;  // where that is less work
};

}  // namespace

PlanPtr make_resample_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, int64_t height, int64_t width,
                           Mixing rows, Mixing columns) {
  if (inputs.empty() || outputs.size() != 1 || height < 1 || width < 1 || !valid(rows, height) ||
      !valid(columns, width))
    throw Error(MX_ERROR_VALUE, "[resample] expected an input, an output and matrices that fit the images");
  const int dtype = outputs[0].dtype;
  if (inputs[0].dtype != dtype || !known(dtype) || (compute_of(dtype) != F32 && compute_of(dtype) != F64))
    throw Error(MX_ERROR_UNSUPPORTED, "[resample] no loops for these types");
  const int64_t planes = inputs[0].size() / (height * width);
  if (planes * height * width != inputs[0].size() || planes * rows.rows() * columns.rows() != outputs[0].size())
    throw Error(MX_ERROR_SHAPE, "[resample] the images do not fit the arrays");
  return std::make_unique<ResamplePlan>(std::move(inputs), std::move(outputs), height, width, std::move(rows),
                                        std::move(columns));
}

}  // namespace mx::cpu
