# SPDX-License-Identifier: Apache-2.0
"""16-bit floating-point types where only float32 has a kernel: upcast, computed, rounded.

A oneDNN kernel for float32 between two casts; sums are those of float32. It stands after kernels
that read and write the type themselves.
"""

from __future__ import annotations

from dataclasses import replace

from mx_core import dtypes
from mx_core import expression as X
from mx_core.kernels import KernelCall, TensorSpec
from mx_core.plugins.specs import target
from mx_operators_cpu import pooling
from mx_operators_cpu.composite import Composite
from mx_operators_cpu.register import ONEDNN_KERNELS, qualified
from mx_operators_cpu.signature import plain

_NARROW = frozenset((dtypes.code("float16"), dtypes.code("bfloat16")))
_FLOAT = dtypes.code("float32")
_SAME = X.trace(lambda x: x, 1)


def _wide(spec: TensorSpec) -> TensorSpec:
    return replace(spec, dtype=_FLOAT) if spec.dtype in _NARROW else spec


def supported(call: KernelCall) -> bool:
    """Whether something is narrow, and what is read alone is."""
    specs = (*call.inputs, *call.outputs)
    if not plain(*specs) or not any(spec.dtype in _NARROW for spec in specs):
        return False
    aux = range(len(call.op.inputs(call.params)), len(call.inputs))
    written = {*aux, *call.op.mutated_inputs(call.params)}
    return not any(call.inputs[i].dtype in _NARROW for i in written)


def make(call: KernelCall) -> object:
    """The float32 kernel between casts, or None where there is none."""
    wide = replace(call, inputs=tuple(map(_wide, call.inputs)), outputs=tuple(map(_wide, call.outputs)))
    _, maker, supports = next(kernel for kernel in ONEDNN_KERNELS if kernel[0] == call.op.name)
    if supports is not None and not target(qualified(supports))(wide):
        return None
    plan = target(qualified(maker))(wide)
    if plan is None:
        return None
    made, inputs, outputs = Composite(call), [], []
    shape_only = call.op.shape_only_inputs(call.params)
    unread = pooling.unread(call) if call.op.name == "_backward_Pooling" else frozenset()
    for i, spec in enumerate(call.inputs):
        inputs.append(i)
        if i in unread:
            inputs[-1] = made.blank(spec.shape, _wide(spec).dtype)
        elif spec.dtype in _NARROW and i not in shape_only:
            inputs[-1] = made.temporary(spec.shape, _FLOAT)
            made.evaluate(_SAME, [i], [inputs[-1]])
    for i, spec in enumerate(call.outputs):
        narrow = spec.dtype in _NARROW
        outputs.append(made.temporary(spec.shape, _FLOAT) if narrow else made.output(i))
    scalars = [("runtime", i) for i in range(len(call.params.scalars))]
    writes_states = len(call.inputs) > len(call.op.inputs(call.params)) and call.is_train
    made.run(plan, inputs, outputs, scalars, mutates=writes_states)
    for i, spec in enumerate(call.outputs):
        if spec.dtype in _NARROW:
            made.evaluate(_SAME, [outputs[i]], [made.output(i)])
    return made.plan()
