// SPDX-License-Identifier: Apache-2.0
//
// Calls of a program whose arrays are new at each: from what is given to the push without Python in between.
#include "bindings_calls.hpp"

#include "mx_core/pybind.hpp"

#include <pybind11/stl.h>

#include <tuple>
#include <utility>
#include <vector>

#include "binding.hpp"
#include "made_once.hpp"
#include "mx_core/pybind_holder.hpp"

namespace mx::symbol {

namespace py = pybind11;

namespace {

PyObject* owned(PyObject* object) {
  if (object == nullptr) throw PythonErrorSet{};
  return object;
}

void put(const py::list& arrays, uint32_t place, py::object array) {
  if (PyList_SetItem(arrays.ptr(), place, array.release().ptr()) != 0) throw PythonErrorSet{};
}

// Pushes a part, with a binding of an earlier call if one is idle.
void start(const std::shared_ptr<Program>& program, const py::list& arrays, const std::shared_ptr<Memo>& memo,
           uint32_t part) {
  program->part(part);
  const py::object bytes = handles_of(arrays);
  const auto* natives = reinterpret_cast<mx_array* const*>(PyBytes_AS_STRING(bytes.ptr()));
  const size_t n = static_cast<size_t>(PyBytes_GET_SIZE(bytes.ptr())) / sizeof(mx_array*);
  const auto binding = Binding::of_call(program, natives, n, memo, part);
  const GilRelease released;
  binding->push(part, 0);
}

// Threads: any, with the GIL; what it holds does not change.
class Calls {
 public:
  // Where an array goes among those of the program, and where it stands among those that are given.
  using Given = std::vector<std::pair<uint32_t, uint32_t>>;
  // The same, and the arguments of `empty` for an array that is made.
  using Made = std::vector<std::tuple<uint32_t, uint32_t, py::tuple>>;

  Calls(std::shared_ptr<Program> program, std::shared_ptr<Memo> memo, py::object empty, py::list kept, Given inputs,
        Made outputs, py::object arena, Given head_grads, Made grads)
      : program_(std::move(program)), memo_(std::move(memo)), empty_(std::move(empty)), kept_(std::move(kept)),
        inputs_(std::move(inputs)), outputs_(std::move(outputs)), arena_(std::move(arena)),
        head_grads_(std::move(head_grads)), grads_(std::move(grads)) {}

  py::tuple forward(const py::tuple& given, py::object arena) const {
    const py::list arrays = copied(kept_);
    const py::list outputs(outputs_.size());
    put_given(arrays, inputs_, given);
    for (const auto& [place, i, arguments] : outputs_) {
      py::object made = empty(arguments);
      PyList_SET_ITEM(outputs.ptr(), i, made.inc_ref().ptr());
      put(arrays, place, std::move(made));
    }
    if (!arena_.is_none()) {
      put(arrays, static_cast<uint32_t>(arrays.size()) - 1,
          arena.is_none() ? empty(py::reinterpret_borrow<py::tuple>(arena_)) : std::move(arena));
    }
    start(program_, arrays, memo_, 0);
    return py::make_tuple(arrays, outputs);
  }

  // Another program, if it is not None, stands in the place of this one's.
  py::list backward(const py::list& forward, const py::object& head_grads, const py::object& given_targets,
                    const py::object& program, const py::object& memo) const {
    const py::list arrays = copied(forward);
    put_given(arrays, head_grads_, listed(head_grads));
    const py::tuple targets = listed(given_targets);
    const py::list made(targets.size());
    for (size_t i = 0; i < targets.size(); ++i) PyList_SET_ITEM(made.ptr(), i, py::none().release().ptr());
    for (const auto& [place, i, arguments] : grads_) {
      py::object target = item(targets, i);
      if (target.is_none()) target = empty(arguments);
      put(made, i, target);
      put(arrays, place, std::move(target));
    }
    if (program.is_none()) {
      start(program_, arrays, memo_, 1);
    } else {
      start(program.cast<std::shared_ptr<Program>>(), arrays, memo.cast<std::shared_ptr<Memo>>(), 1);
    }
    return made;
  }

 private:
  static py::list copied(const py::list& arrays) {
    return py::reinterpret_steal<py::list>(owned(PyList_GetSlice(arrays.ptr(), 0, PyList_GET_SIZE(arrays.ptr()))));
  }
  // A tuple of what a tuple, a list or another iterable has now.
  static py::tuple listed(const py::object& arrays) {
    return py::reinterpret_steal<py::tuple>(owned(PySequence_Tuple(arrays.ptr())));
  }
  static py::object item(const py::tuple& arrays, uint32_t i) {
    if (i >= arrays.size()) throw Error(MX_ERROR_INDEX, "[CachedOp] a call has no array " + std::to_string(i));
    return py::reinterpret_borrow<py::object>(PyTuple_GET_ITEM(arrays.ptr(), i));
  }
  static void put_given(const py::list& arrays, const Given& places, const py::tuple& given) {
    for (const auto& [place, i] : places) put(arrays, place, item(given, i));
  }
  py::object empty(const py::tuple& arguments) const {
    PyObject* const* items = PySequence_Fast_ITEMS(arguments.ptr());
    const auto n = static_cast<size_t>(PyTuple_GET_SIZE(arguments.ptr()));
    return py::reinterpret_steal<py::object>(owned(PyObject_Vectorcall(empty_.ptr(), items, n, nullptr)));
  }

  std::shared_ptr<Program> program_;
  std::shared_ptr<Memo> memo_;
  py::object empty_;
  py::list kept_;  // per array: what stays, or stands for what the forward part does not touch; None for others
  Given inputs_;
  Made outputs_;
  py::object arena_;  // arguments of `empty`, or None
  Given head_grads_;
  Made grads_;
};

std::shared_ptr<Calls> make_calls(std::shared_ptr<Program> program, std::shared_ptr<Memo> memo, py::object empty,
                                  py::list kept, Calls::Given inputs, Calls::Made outputs, py::object arena,
                                  Calls::Given head_grads, Calls::Made grads) {
  return std::make_shared<Calls>(std::move(program), std::move(memo), std::move(empty), std::move(kept),
                                 std::move(inputs), std::move(outputs), std::move(arena), std::move(head_grads),
                                 std::move(grads));
}

}  // namespace

py::object handles_of(const py::list& arrays) {
  static std::atomic<const py::object*> handles{nullptr};
  const py::object& function =
      made_once(handles, [] { return py::object(py::module_::import("mx_ndarray._core").attr("handles")); });
  return py::reinterpret_steal<py::object>(owned(PyObject_CallOneArg(function.ptr(), arrays.ptr())));
}

void bind_calls(py::module_& module) {
  py::class_<Calls, std::shared_ptr<Calls>>(module, "Calls", py::module_local(),
                                            "A program on arrays that are new at each call.")
      .def("__init__", mx::init(&make_calls), py::detail::is_new_style_constructor(), py::arg("program"), py::arg("memo"), py::arg("empty"),
           py::arg("kept"), py::arg("inputs"), py::arg("outputs"), py::arg("arena"), py::arg("head_grads"),
           py::arg("grads"))
      .def("forward",
           [](const Calls& calls, const py::tuple& given, const py::object& arena) {
             return translated([&] { return calls.forward(given, arena); });
           },
           py::arg("given"), py::arg("arena"),
           "Starts the first part; all arrays, and the outputs. Without an arena a new one is among the arrays.")
      .def("backward",
           [](const Calls& calls, const py::list& forward, const py::object& head_grads, const py::object& targets,
              const py::object& program, const py::object& memo) {
             return translated([&] { return calls.backward(forward, head_grads, targets, program, memo); });
           },
           py::arg("forward"), py::arg("head_grads"), py::arg("targets"), py::arg("program") = py::none(),
           py::arg("memo") = py::none(),
           "Starts the second part on the arrays of the first; gradients of the inputs, in targets where there are.");
}

}  // namespace mx::symbol
