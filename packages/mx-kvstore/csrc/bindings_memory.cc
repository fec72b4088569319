// SPDX-License-Identifier: Apache-2.0
#include "mx_core/pybind.hpp"

#include "bindings_memory.hpp"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "mx_core/types.hpp"
#include "sum.hpp"

namespace py = pybind11;

namespace mx::kv {
namespace {

using Bytes = py::array_t<uint8_t, py::array::c_style>;

constexpr py::ssize_t kStream = 1 << 20;  // bytes of a sum from which it is written past the caches

struct Item {
  int32_t dtype;
  py::ssize_t bytes;
  std::vector<const void*> sources;
  std::vector<void*> targets;
};

[[noreturn]] void refuse(size_t place, const std::string& what) {
  throw Error(MX_ERROR_VALUE, "[sum_memory] sum " + std::to_string(place) + ": " + what);
}

Item item_of(size_t place, int32_t dtype, const std::vector<Bytes>& sources, std::vector<Bytes>& targets) {
  if (!can_sum(dtype)) throw Error(MX_ERROR_DTYPE, "[sum_memory] no sums of type " + std::to_string(dtype));
  if (sources.empty()) refuse(place, "expected at least one source");
  Item item{dtype, sources[0].size(), {}, {}};
  const auto check = [&](const Bytes& array) {
    if (array.size() == item.bytes) return;
    refuse(place, "expected " + std::to_string(item.bytes) + " bytes, got " + std::to_string(array.size()));
  };
  if (item.bytes % static_cast<py::ssize_t>(item_size(dtype)) != 0) {
    refuse(place, "expected whole elements, got " + std::to_string(item.bytes) + " bytes");
  }
  for (const Bytes& source : sources) {
    check(source);
    item.sources.push_back(source.data());
  }
  for (Bytes& target : targets) {
    check(target);
    if (!target.writeable()) refuse(place, "expected targets that may be written");
    item.targets.push_back(target.mutable_data());
  }
  return item;
}

// Writes to all arrays of targets[i] the sum of sources[i], as elements of dtypes[i].
void sum_memory(const std::vector<int32_t>& dtypes, const std::vector<std::vector<Bytes>>& sources,
                std::vector<std::vector<Bytes>> targets, bool streaming) {
  translated([&] {
    if (sources.size() != dtypes.size() || targets.size() != dtypes.size()) {
      throw Error(MX_ERROR_VALUE, "[sum_memory] expected as many sources and targets as types, got " +
                                      std::to_string(sources.size()) + ", " + std::to_string(targets.size()) + " and " +
                                      std::to_string(dtypes.size()));
    }
    std::vector<Item> items;
    for (size_t i = 0; i < dtypes.size(); ++i) items.push_back(item_of(i, dtypes[i], sources[i], targets[i]));
    const GilRelease released;
    for (const Item& item : items) {
      const int64_t elements = item.bytes / static_cast<int64_t>(item_size(item.dtype));
      sum(item.dtype, item.sources, item.targets, 0, elements, streaming && item.bytes >= kStream);
    }
  });
}

}  // namespace

void bind_memory(py::module_& module) {
  module.def("sum_memory", &sum_memory, py::arg("dtypes"), py::arg("sources").noconvert(),
             py::arg("targets").noconvert(), py::arg("streaming") = false);
}

}  // namespace mx::kv
