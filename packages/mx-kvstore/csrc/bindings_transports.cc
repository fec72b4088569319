// SPDX-License-Identifier: Apache-2.0
#include "mx_core/pybind.hpp"

#include "bindings_transports.hpp"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "links.hpp"
#include "mx_core/types.hpp"
#include "shared_sums.hpp"
#include "transport.hpp"
#include "window.hpp"

namespace py = pybind11;

namespace mx::kv {
namespace {

using Bytes = py::array_t<uint8_t, py::array::c_style>;

std::vector<Item> items_of(Kind kind, int32_t dtype, const std::vector<Bytes>& arrays) {
  std::vector<Item> items(arrays.size());
  for (size_t i = 0; i < arrays.size(); ++i) {
    items[i].kind = kind;
    items[i].dtype = dtype;
    items[i].bytes = static_cast<size_t>(arrays[i].size());
  }
  return items;
}

bool exchange_items(Transport& transport, const std::vector<Item>& items) {
  const GilRelease released;
  return transport.exchange(items, [](size_t) {});
}

// Sums arrays of a type over the workers; `name` is the method's.
bool sum_arrays(Transport& transport, const std::string& name, int32_t dtype, const std::vector<Bytes>& sends,
                std::optional<std::vector<Bytes>>& receives) {
  if (!can_exchange(dtype)) throw Error(MX_ERROR_DTYPE, "[" + name + "] no sums of type " + std::to_string(dtype));
  std::vector<Item> items = items_of(Kind::kSum, dtype, sends);
  if (receives && receives->size() != sends.size()) {
    throw Error(MX_ERROR_VALUE, "[" + name + "] receives: expected " + std::to_string(sends.size()) + " arrays, got " +
                                    std::to_string(receives->size()));
  }
  for (size_t i = 0; i < items.size(); ++i) {
    items[i].send = reinterpret_cast<const char*>(sends[i].data());
    if (items[i].bytes % item_size(dtype) != 0 || (receives && (*receives)[i].size() != sends[i].size())) {
      throw Error(MX_ERROR_VALUE, "[" + name + "] array " + std::to_string(i) + ": expected values of one size");
    }
    if (receives) items[i].targets = {(*receives)[i].mutable_data()};
  }
  return exchange_items(transport, items);
}

// Gives all workers what worker roots[i] has in arrays[i].
bool give_arrays(Transport& transport, int64_t workers, const std::string& name, const std::vector<int64_t>& roots,
                 std::vector<Bytes>& arrays) {
  if (roots.size() != arrays.size()) {
    throw Error(MX_ERROR_VALUE, "[" + name + "] roots: expected " + std::to_string(arrays.size()) + " numbers, got " +
                                    std::to_string(roots.size()));
  }
  std::vector<Item> items = items_of(Kind::kFirst, MX_UINT8, arrays);
  for (size_t i = 0; i < items.size(); ++i) {
    if (roots[i] < 0 || roots[i] >= workers) {
      throw Error(MX_ERROR_VALUE, "[" + name + "] roots: expected numbers of " + std::to_string(workers) +
                                      " workers, got " + std::to_string(roots[i]));
    }
    items[i].root = roots[i];
    items[i].targets = {arrays[i].mutable_data()};
  }
  return exchange_items(transport, items);
}

void bind_window(py::module_& module) {
  py::class_<Window>(module, "Window")
      .def(py::init([](int file, int64_t rank, int64_t workers) {
             return translated([&] { return std::make_unique<Window>(file, rank, workers); });
           }),
           py::arg("file"), py::arg("rank"), py::arg("workers"))
      .def_static("bytes", &Window::bytes, py::arg("workers"))
      .def(
          "sum",
          [](Window& self, int32_t dtype, const std::vector<Bytes>& sends, std::optional<std::vector<Bytes>> receives) {
            OverWindow transport(self);
            return translated([&] { return sum_arrays(transport, "Window.sum", dtype, sends, receives); });
          },
          py::arg("dtype"), py::arg("sends").noconvert(), py::arg("receives").noconvert())
      .def(
          "give",
          [](Window& self, const std::vector<int64_t>& roots, std::vector<Bytes> arrays) {
            OverWindow transport(self);
            return translated([&] { return give_arrays(transport, self.workers(), "Window.give", roots, arrays); });
          },
          py::arg("roots"), py::arg("arrays").noconvert())
      .def_property_readonly("stopped", &Window::stopped)
      .def("stop", &Window::stop);
}

void bind_links(py::module_& module) {
  py::class_<Links>(module, "Links")
      .def(py::init([](const std::vector<std::pair<int, int>>& connections, int64_t rank) {
             return translated([&] { return std::make_unique<Links>(connections, rank); });
           }),
           py::arg("connections"), py::arg("rank"))
      .def(
          "sum",
          [](Links& self, int32_t dtype, const std::vector<Bytes>& sends, std::vector<Bytes> receives) {
            std::optional<std::vector<Bytes>> given(std::move(receives));
            return translated([&] { return sum_arrays(self, "Links.sum", dtype, sends, given); });
          },
          py::arg("dtype"), py::arg("sends").noconvert(), py::arg("receives").noconvert())
      .def(
          "give",
          [](Links& self, const std::vector<int64_t>& roots, std::vector<Bytes> arrays) {
            return translated([&] { return give_arrays(self, self.workers(), "Links.give", roots, arrays); });
          },
          py::arg("roots"), py::arg("arrays").noconvert())
      .def_property_readonly("broken", &Links::broken)
      .def_property_readonly("stopped", &Links::stopped)
      .def("stop", &Links::stop);
}

}  // namespace

void bind_transports(py::module_& module) {
  bind_window(module);
  bind_links(module);
}

}  // namespace mx::kv
