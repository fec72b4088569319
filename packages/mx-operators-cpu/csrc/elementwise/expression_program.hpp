// SPDX-License-Identifier: Apache-2.0
//
// An expression compiled for one signature: which loop runs on which buffers.
//
// Values live in slots.  A slot of a vector value points into an input, into an output or into a
// tile (a register of `tile` elements that stays in the first-level cache); a slot of a uniform
// value, one number for all elements or for one row, points to eight bytes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "elementwise/broadcast.hpp"
#include "simd/loops.hpp"
#include "mx_core/expression.h"
#include "common/plan.hpp"

namespace mx::cpu {

constexpr uint32_t kNone = 0xffffffffu;

enum class Access : uint8_t {
  kUnused,
  kDirect,   // read in place
  kConvert,  // converted into a tile
  kExpand,   // spread into a tile (and converted)
  kRow,      // one element per row
  kScalar    // one element
};

struct Operand {
  Access access = Access::kUnused;
  bool periodic = false;    // kExpand: equal in every tile, if a tile is a multiple of the period
  Convert convert = nullptr;
  uint32_t tile = kNone;    // kConvert, kExpand: where its value goes
  uint32_t spread = kNone;  // kExpand with conversion: the tile for the unconverted elements
};

struct Step {
  Loop loop;        // nullptr: `convert`
  Convert convert;  // half of a cast
  uint32_t out, a, b, c;
  Loop streamed = nullptr;  // where there is one
};

struct ProgramResult {
  uint32_t value;         // a slot
  bool uniform;           // one number for all elements (of a row)
  bool direct;            // its last instruction may write to the output itself
  uint32_t spare = kNone;  // a tile for conversion, accumulation and uniform values
  Convert store = nullptr, load = nullptr;  // nullptr: the storage type is the compute type
};

struct Uniform {
  uint32_t slot;
  double number;    // constants
  uint32_t scalar;  // kNone: a constant
};

struct Program {
  Compute compute;
  size_t item_size;
  uint32_t n_scalars = 0;
  Broadcast shape;
  bool rows = true;  // tiles lie within rows; otherwise across them and broadcasts are expanded
  int64_t period = 0;

  uint32_t n_slots = 0, n_tiles = 0;
  std::vector<uint32_t> tile_of;  // [slot], kNone for uniform values and direct inputs
  std::vector<uint8_t> is_uniform;
  std::vector<Operand> operands;
  std::vector<Uniform> uniforms;
  std::vector<Step> once, per_row, per_tile;
  std::vector<Step> once_wide;        // `once` in double
  std::vector<uint32_t> once_slots;   // every value that is one number for all elements
  std::vector<ProgramResult> results;
  bool needs_tiles = false;  // even when every direct output is written in place
};

// Throws mx::Error: MX_ERROR_VALUE for bytes that are no expression, MX_ERROR_UNSUPPORTED for an
// opcode or type without loops, MX_ERROR_SHAPE for shapes that do not broadcast.
Program compile(std::string_view serialized, const std::vector<Spec>& inputs,
                const std::vector<Spec>& outputs);

}  // namespace mx::cpu
