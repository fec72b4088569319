// SPDX-License-Identifier: Apache-2.0
//
// What the Python side of every storage manager has: capsules that keep it alive, statistics, limits.
// With pybind11.
#pragma once

#include "mx_core/pybind_arguments.hpp"

#include <memory>

#include "mx_core/storage.h"

namespace mx {

// A capsule of a table that keeps its owner alive.
template <class Owner, class Table>
pybind11::capsule capsule_of(const std::shared_ptr<Owner>& owner, const Table* table, const char* name) {
  auto capsule = pybind11::capsule(table, name, [](PyObject* object) {
    delete static_cast<std::shared_ptr<Owner>*>(PyCapsule_GetContext(object));
  });
  PyCapsule_SetContext(capsule.ptr(), new std::shared_ptr<Owner>(owner));
  return capsule;
}

inline void bind_storage_stats(pybind11::module_& module) {
  using Stats = mx_storage_stats;
  pybind11::class_<Stats>(module, "Stats", pybind11::module_local())
      .def_readonly("bytes_in_use", &Stats::bytes_in_use)
      .def_readonly("bytes_pooled", &Stats::bytes_pooled)
      .def_readonly("bytes_peak", &Stats::bytes_peak)
      .def_readonly("bytes_limit", &Stats::bytes_limit)
      .def_readonly("allocations", &Stats::allocations)
      .def_readonly("pool_hits", &Stats::pool_hits)
      .def("__repr__", [](const Stats& s) {
        return pybind11::str("Stats(bytes_in_use={}, bytes_pooled={}, bytes_peak={}, bytes_limit={}, allocations={}, "
                             "pool_hits={})")
            .format(s.bytes_in_use, s.bytes_pooled, s.bytes_peak, s.bytes_limit, s.allocations, s.pool_hits);
      });
}

// Methods of a class with account(object), the account of a context or of the default one.
template <class Manager, class... Options>
void bind_accounts(pybind11::class_<Manager, Options...>& bound) {
  using pybind11::object;
  const auto context = pybind11::arg("ctx") = pybind11::none();
  bound.def_property_readonly("capsule", &Manager::capsule)
      .def_property_readonly("name", &Manager::name)
      .def("stats", [](Manager& m, const object& c) { return m.account(c).stats(); }, context)
      .def("holders", &Manager::holders, context)
      .def("release_all", [](Manager& m, const object& c) { m.account(c).release(); }, context)
      .def("reset_peak", [](Manager& m, const object& c) { m.account(c).reset_peak(); }, context)
      .def("set_limit",
           [](Manager& m, const object& nbytes, const object& c) {
             m.account(c).set_limit(whole_number<uint64_t>("[StorageManager.set_limit] nbytes", nbytes));
           },
           pybind11::arg("nbytes"), context);
}

}  // namespace mx
