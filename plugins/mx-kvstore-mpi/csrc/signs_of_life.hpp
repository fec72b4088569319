// SPDX-License-Identifier: Apache-2.0
//
// Signs of life on a connection, by a thread that needs no GIL: a program that holds it for minutes lives all the same.
#ifndef MX_KVSTORE_MPI_SIGNS_OF_LIFE_HPP_
#define MX_KVSTORE_MPI_SIGNS_OF_LIFE_HPP_

#include "mx_core/python.hpp"

namespace mx::kvstore_mpi {

// signs_begin(fd, message, seconds) -> a capsule; `message` is sent every so many seconds.
PyObject* signs_begin(PyObject*, PyObject* arguments);
// signs_send(capsule, data): sends between two signs, never within one.
PyObject* signs_send(PyObject*, PyObject* arguments);
// signs_end(capsule): no more signs, and nothing else; the descriptor may be closed then.
PyObject* signs_end(PyObject*, PyObject* arguments);

}  // namespace mx::kvstore_mpi

#endif  // MX_KVSTORE_MPI_SIGNS_OF_LIFE_HPP_
