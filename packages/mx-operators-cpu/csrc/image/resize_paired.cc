// SPDX-License-Identifier: Apache-2.0
//
// 8-bit images resized in 16 bits: every pixel of the result lies between two rows and two columns.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "image/images.hpp"
#include "simd/loops.hpp"
#include "indexing/strided_copy.hpp"
#include "simd/accumulate.hpp"
#include "common/parallel.hpp"
#include "common/upcast.hpp"

namespace mx::cpu {
namespace {

constexpr int kBits = 11;           // of the weights
constexpr int64_t kRoom = 16;       // elements after the pixels of a row that loops may touch
constexpr int64_t kPieceRows = 32;  // rows of the result a thread makes at a time

int32_t fixed(double weight) { return static_cast<int32_t>(std::rint(weight * (1 << kBits))); }

class PairedResizePlan final : public Plan {
 public:
  PairedResizePlan(std::vector<Spec> inputs, std::vector<Spec> outputs, const Mixing& rows, const Mixing& columns)
      : Plan(std::move(inputs), std::move(outputs)),
        height_(inputs_[0].shape[inputs_[0].shape.size() - 3]),
        channels_(inputs_[0].shape.back()),
        row_bytes_(inputs_[0].shape[inputs_[0].shape.size() - 2] * channels_),
        rows_(rows.rows()),
        columns_(columns.rows()),
        down_(rows.columns) {
    for (double weight : rows.weights) weights_.push_back(static_cast<int16_t>(fixed(weight)));
    for (int64_t j = 0; j < columns_; ++j) {
      const auto first = static_cast<size_t>(columns.begins[static_cast<size_t>(j)]);
      const bool two = columns.begins[static_cast<size_t>(j) + 1] - static_cast<int64_t>(first) == 2;
      places_.push_back(static_cast<int32_t>(columns.columns[first] * channels_));
      along_.push_back(static_cast<uint32_t>(fixed(columns.weights[first])) |
                       (two ? static_cast<uint32_t>(fixed(columns.weights[first + 1])) << 16 : 0));
    }
    rows_memory_ = add_thread_scratch(static_cast<size_t>(2 * room()) * sizeof(int16_t) +
                                      static_cast<size_t>(room() + row_bytes_ + channels_ + kRoom));
  }

 protected:
  void execute(const Call& call) const override {
    if (!call.wanted(0) || outputs_[0].size() == 0) return;
    const int64_t images = inputs_[0].size() / (height_ * row_bytes_), pieces = (rows_ + kPieceRows - 1) / kPieceRows;
    parallel_for(images * pieces, 1, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t p = begin; p < end; ++p) {
        const int64_t first = p % pieces * kPieceRows;
        resize_rows(call, p / pieces, first, std::min(first + kPieceRows, rows_), rows_memory_.of(call, thread));
      }
    });
  }

 private:
  // The last two rows that were mixed, by their number: the next one mostly needs them again.
  struct Kept {
    int16_t* row[2];
    int64_t number[2] = {-1, -1};
  };

  int64_t room() const { return (columns_ * channels_ + 2 * kRoom) / kRoom * kRoom; }

  void resize_rows(const Call& call, int64_t image, int64_t begin, int64_t end, char* memory) const {
    const int64_t n = columns_ * channels_, room = this->room();
    auto* mixed = reinterpret_cast<int16_t*>(memory);
    auto* made = reinterpret_cast<uint8_t*>(mixed + 2 * room);
    uint8_t* source = made + room;
    std::fill_n(source + row_bytes_, channels_ + kRoom, uint8_t{0});  // the neighbour of the last pixel
    Kept kept{{mixed, mixed + room}};
    for (int64_t row = begin; row < end; ++row) {
      const int64_t above = down_[static_cast<size_t>(2 * row)], below = down_[static_cast<size_t>(2 * row + 1)];
      const int16_t* upper = mixed_row(call, image, above, below, source, kept);
      const int16_t* lower = mixed_row(call, image, below, above, source, kept);
      const int16_t* weight = &weights_[static_cast<size_t>(2 * row)];
      const int64_t at = (image * rows_ + row) * n;
      char* to = call.output(0) + at;
      const auto count = static_cast<size_t>(n);
      if (!call.adds(0)) {
        loops().mix_rows(reinterpret_cast<uint8_t*>(to), upper, lower, weight[0], weight[1], count);
        continue;
      }
      loops().mix_rows(made, upper, lower, weight[0], weight[1], count);
      accumulate(MX_UINT8, to, reinterpret_cast<char*>(made), n);
    }
  }

  // Row `number` of an image along its columns; the row `other` is still needed.
  const int16_t* mixed_row(const Call& call, int64_t image, int64_t number, int64_t other, uint8_t* source,
                           Kept& kept) const {
    for (int k = 0; k < 2; ++k)
      if (kept.number[k] == number) return kept.row[k];
    const int k = kept.number[0] == other ? 1 : 0;
    std::memcpy(source, call.input(0) + (image * height_ + number) * row_bytes_, static_cast<size_t>(row_bytes_));
    loops().mix_pixels(kept.row[k], source, places_.data(), along_.data(), static_cast<size_t>(channels_),
                       places_.size());
    kept.number[k] = number;
    return kept.row[k];
  }

  const int64_t height_, channels_, row_bytes_, rows_, columns_;
  const Shape down_;                // two rows for each of the result
  std::vector<int16_t> weights_;    // and theirs
  std::vector<int32_t> places_;     // [column] the first of two pixels
  PerThread rows_memory_;
  std::vector<uint32_t> along_;     // [column] the weights of both, one in each half
};

}  // namespace

PlanPtr make_paired_resize_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const Mixing& rows,
                                const Mixing& columns) {
  constexpr int64_t kLongest = int64_t{1} << 31;
  const auto pairs = [](const Mixing& mixing, int64_t least, bool together) {
    for (size_t i = 0; i + 1 < mixing.begins.size(); ++i) {
      const int64_t first = mixing.begins[i], n = mixing.begins[i + 1] - first;
      if (n < least || n > 2) return false;
      const int64_t* places = &mixing.columns[static_cast<size_t>(first)];
      if (together && n == 2 && places[1] != places[0] + 1) return false;
    }
    return std::all_of(mixing.weights.begin(), mixing.weights.end(), [](double w) { return w >= 0 && w <= 1; });
  };
  const Shape& shape = inputs[0].shape;
  const bool short_rows = shape[shape.size() - 2] * shape.back() < kLongest;
  fits(pairs(rows, 2, false) && pairs(columns, 1, true) && short_rows, "_image_resize");
  return std::make_unique<PairedResizePlan>(std::move(inputs), std::move(outputs), rows, columns);
}

}  // namespace mx::cpu
