// SPDX-License-Identifier: Apache-2.0
#include "mx_core/pybind.hpp"

#include "bindings_neighbours.hpp"

#include <pybind11/stl.h>

#include <memory>
#include <vector>

#include "neighbours.hpp"
#include "window.hpp"

namespace py = pybind11;

namespace mx::kv {
namespace {

const mx_shared_api* sharing_of(const py::object& capsule) {
  return import_table<mx_shared_api>(capsule.ptr(), MX_SHARED_CAPSULE, MX_SHARED_MAJOR, MX_SHARED_MINOR, "mx-kvstore");
}

std::shared_ptr<Neighbours> make(const py::object& sharing, const std::vector<int>& files) {
  return translated([&] {
    const std::shared_ptr<PyObject> held(sharing.inc_ref().ptr(),
                                         [](PyObject* object) { Reaper::instance().drop(object); });
    return std::make_shared<Neighbours>(held, sharing_of(sharing), files);
  });
}

// Descriptor and inode of the file in which this process's large arrays come to lie.
py::tuple file_of(const py::object& sharing) {
  return translated([&] {
    const mx_shared_api* table = sharing_of(sharing);
    mx_segment found{};
    mx_error error{};
    check(table->segment(table->self, nullptr, &found, &error), error);
    return py::make_tuple(found.fd, found.inode);
  });
}

void serve(const std::shared_ptr<Neighbours>& self, Window& window) { window.see(self); }

}  // namespace

void bind_neighbours(py::module_& module) {
  py::class_<Neighbours, std::shared_ptr<Neighbours>>(module, "Neighbours")
      .def(py::init(&make), py::arg("sharing"), py::arg("files"))
      .def_static("file", &file_of, py::arg("sharing"))
      .def("serve", &serve, py::arg("window"));
}

}  // namespace mx::kv
