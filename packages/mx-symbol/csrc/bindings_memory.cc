// SPDX-License-Identifier: Apache-2.0
#include "bindings_memory.hpp"

#include <pybind11/stl.h>

#include "mx_core/gil.hpp"
#include "placement.hpp"

namespace mx::symbol {
namespace {

namespace py = pybind11;

std::pair<std::vector<uint64_t>, uint64_t> place_blocks(
    const std::vector<std::tuple<int64_t, int64_t, uint64_t>>& given, uint64_t live, size_t greedy_blocks,
    uint32_t rounds) {
  const GilRelease released;
  std::vector<Block> blocks;
  blocks.reserve(given.size());
  for (const auto& [birth, death, size] : given) blocks.push_back({birth, death, size});
  Offsets placed = place(blocks, live, {greedy_blocks, rounds});
  return {std::move(placed.of), placed.total};
}

}  // namespace

void bind_memory(py::module_& module) {
  module.def("place", &place_blocks, py::arg("blocks"), py::arg("live"), py::arg("greedy_blocks"),
             py::arg("rounds"),
             "Offsets of blocks (birth, death, bytes), which come by birth, and the size of the arena.");
}

}  // namespace mx::symbol
