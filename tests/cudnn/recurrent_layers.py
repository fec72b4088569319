# SPDX-License-Identifier: Apache-2.0
"""Where cuDNN itself has the parameters of recurrent layers: where the operator has them, `nox -s cudnn`.

Without a GPU cuDNN makes no handle. Its functions that tell sizes and places ask for one and do not look into it, as
version 9.19 shows, so they get memory of zeros. Nothing else of recurrent layers can be asked without a GPU.
"""

from __future__ import annotations

import ctypes
from itertools import product
from typing import Any

import pytest

from mx_core import dtypes
from mx_core.context import gpu
from mx_core.kernels import KernelCall
from mx_core.testing.case import make_case
from mx_operators_cuda import cudnn, dnn_rnn
from mx_operators_cuda.rnn import Stack

INPUTS, UNITS, STEPS, BATCH = 5, 3, 7, 2
GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}
#: cuDNN's numbers of types, and of how products of them are computed
TYPES = {"float32": (0, 3), "float16": (2, 1), "bfloat16": (9, 1)}
#: an address from which cuDNN counts
BASE = 1 << 20


@pytest.fixture(scope="module")
def library() -> Any:
    return ctypes.CDLL(cudnn.load()[0])


def stack(mode: str, layers: int, both: bool, dtype: str) -> tuple[Stack, dnn_rnn.Signature]:
    """The operator's places, and what cuDNN is asked for."""
    params = {"mode": mode, "num_layers": layers, "bidirectional": both, "state_size": UNITS}
    case = make_case("RNN", params, [(STEPS, BATCH, INPUTS)], dtype=dtype)
    call = KernelCall(case.op, case.params, tuple(case.specs), tuple(case.outputs), gpu(0), True)
    what = dnn_rnn.signature(call)
    assert what is not None
    return Stack(call, 0), what


@pytest.mark.parametrize(("mode", "layers", "both", "dtype"), [*product(GATES, (1, 3), (False, True), TYPES)])
def test_places_of_parameters(mode: str, layers: int, both: bool, dtype: str, library: Any) -> None:
    ours, what = stack(mode, layers, both, dtype)
    pointer, (code, math) = ctypes.c_void_p, TYPES[dtype]
    handle, rnn, matrix, vector = ctypes.create_string_buffer(1 << 20), pointer(), pointer(), pointer()
    assert library.cudnnCreateRNNDescriptor(ctypes.byref(rnn)) == 0
    assert library.cudnnCreateTensorDescriptor(ctypes.byref(matrix)) == 0
    assert library.cudnnCreateTensorDescriptor(ctypes.byref(vector)) == 0
    set_up = (0, dnn_rnn._CELLS[what.cell], 2, int(both), 0, code, 0, math, INPUTS, UNITS, UNITS, layers)
    assert library.cudnnSetRNNDescriptor_v8(rnn, *set_up, pointer(None), 0) == 0
    size = ctypes.c_size_t()
    assert library.cudnnGetRNNWeightSpaceSize(handle, rnn, ctypes.byref(size)) == 0
    item = dtypes.itemsize(what.code)
    assert size.value == ours.call.inputs[1].shape[0] * item
    gates = GATES[mode]
    for i, weights in enumerate(ours.weights()):
        columns = ours.read(i // ours.ways)
        for gate in range(2 * gates):
            weight, bias = pointer(), pointer()
            status = library.cudnnGetRNNWeightParams(
                handle,
                rnn,
                i,
                size,
                pointer(BASE),
                gate,
                matrix,
                ctypes.byref(weight),
                vector,
                ctypes.byref(bias),
            )
            assert status == 0
            own, part = gate < gates, gate % gates * UNITS
            of_matrix = (weights.w if own else weights.r) + part * (columns if own else UNITS)
            of_bias = (weights.b_w if own else weights.b_r) + part
            assert (weight.value, bias.value) == (BASE + of_matrix * item, BASE + of_bias * item)
