// SPDX-License-Identifier: Apache-2.0
//
// Objects of bound classes, where memory may run out.
//
// pybind11 makes the holder of a new object after the constructor's call has returned, outside of its handlers, or
// leaves the object with two owners: where the allocation fails, the process would end.
#pragma once

#include <pybind11/pybind11.h>

#include <utility>

namespace mx {

namespace detail {

template <class Holder>
void hold(pybind11::detail::value_and_holder self, Holder made) {
  self.value_ptr() = made.get();
  try {
    self.type->init_instance(self.inst, &made);
  } catch (...) {
    self.value_ptr() = nullptr;  // `made` destroys it
    throw;
  }
}

}  // namespace detail

namespace detail {

[[noreturn]] inline void* refuse_memory(size_t) {
  throw pybind11::type_error("the object was never initialised: its class's __init__() has not been called");
}

}  // namespace detail

// For a whole module, when its classes are bound: an object that `__new__` alone has made is refused where it is used.
// pybind11 would hand out memory that nobody has written.
inline void refuse_uninitialised(const pybind11::module_& module) {
  for (const auto& [name, value] : pybind11::dict(module.attr("__dict__"))) {
    if (!PyType_Check(value.ptr())) continue;
    auto* type = pybind11::detail::get_type_info(reinterpret_cast<PyTypeObject*>(value.ptr()));
    if (type != nullptr) type->operator_new = detail::refuse_memory;
  }
}

// What `__init__` of a bound class is, followed by pybind11::detail::is_new_style_constructor(): its holder is made by
// a function, or around a new object.
template <class Holder, class... Arguments>
auto init(Holder (*make)(Arguments...)) {
  return [make](pybind11::detail::value_and_holder& self, Arguments... arguments) {
    detail::hold(self, make(std::forward<Arguments>(arguments)...));
  };
}
template <class Holder, class... Arguments>
auto init() {
  return init(+[](Arguments... arguments) {
    return Holder(new typename Holder::element_type(std::forward<Arguments>(arguments)...));
  });
}

// A Python object of a bound class around what Python has not seen yet.
template <class Holder>
pybind11::object new_object(Holder made) {
  auto* type = pybind11::detail::get_type_info(typeid(typename Holder::element_type));
  auto object = pybind11::reinterpret_steal<pybind11::object>(pybind11::detail::make_new_instance(type->type));
  auto* instance = reinterpret_cast<pybind11::detail::instance*>(object.ptr());
  detail::hold(instance->get_value_and_holder(type), std::move(made));
  return object;
}

}  // namespace mx
