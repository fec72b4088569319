// SPDX-License-Identifier: Apache-2.0
//
// The Python module: two functions that hand out kernel tables as capsules.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "moving_average.hpp"

namespace {

PyObject* capsule(const mx_kernel_api* table) {
  return PyCapsule_New(const_cast<mx_kernel_api*>(table), MX_KERNEL_CAPSULE, nullptr);
}

PyObject* forward(PyObject* /*module*/, PyObject* /*call*/) {
  return capsule(mx_example::moving_average_kernel());
}

PyObject* backward(PyObject* /*module*/, PyObject* /*call*/) {
  return capsule(mx_example::backward_moving_average_kernel());
}

PyMethodDef methods[] = {
    {"moving_average", forward, METH_O, "Kernel table of moving_average."},
    {"_backward_moving_average", backward, METH_O, "Kernel table of its gradient."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT, "_native", "Native kernels of mx-example-operators.", 0, methods,
    nullptr, nullptr, nullptr, nullptr,
};

}  // namespace

PyMODINIT_FUNC PyInit__native() { return PyModule_Create(&module_definition); }
