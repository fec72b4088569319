# SPDX-License-Identifier: Apache-2.0
"""Recurrent stacks of inference whose parameters are brought into the order of their products beforehand.

`pack_recurrent` is a graph pass: where the parameters are known before a run, the reorders that every run would
do become a node that runs only when they were written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mx_core.errors import NoKernelError
from mx_core.graph import PREPARED, Entry, Graph
from mx_core.kernels import KernelCall
from mx_core.operator import Operator
from mx_operators_cpu.convolution.fused_layer import PackParam, PackWeight
from mx_operators_cpu.rnn.rnn import stack, supported
from mx_operators_cpu.signature import float32_or_bfloat16, tensors

if TYPE_CHECKING:
    from mx_core.operator import Array, ReferenceContext, Shapes, Types


class PackStackParam(PackParam, init=False):
    """The call whose parameters are packed."""

    op_name = "_onednn_pack_RNN"


class PackStack(PackWeight):
    """The parameters of a recurrent stack in the order that its products read."""

    name = "_onednn_pack_RNN"
    Param = PackStackParam

    def reference(self, p: PackParam, inputs: Sequence[Array], ctx: ReferenceContext) -> Sequence[Array]:
        """The order is the library's own."""
        raise NoKernelError("[_onednn_pack_RNN] only oneDNN knows the order")


class PackedStackParam(PackParam, init=False):
    """The call with parameters as they were."""

    op_name = "_onednn_RNN"


class PackedStack(Operator[PackedStackParam]):
    """RNN without training, with packed parameters: its visible outputs alone."""

    name = "_onednn_RNN"
    differentiable = False  # of inference alone
    custom_gradient = True
    arguments = ("data", "parameters", "state", "state_cell", "sequence_length")
    results = ("output", "state_output", "statecell_output")

    def inputs(self, p: PackedStackParam) -> tuple[str, ...]:
        """As RNN."""
        return tuple(p.call.op.inputs(p.call.params))

    def outputs(self, p: PackedStackParam) -> tuple[str, ...]:
        """The visible ones of RNN."""
        return tuple(p.call.op.outputs(p.call.params))[: p.call.op.num_visible_outputs(p.call.params)]

    def infer_shape(self, p: PackedStackParam, s: Shapes) -> None:
        """As they were."""
        for name, spec in zip(self.outputs(p), p.call.outputs, strict=False):
            s.assign(name, spec.shape)

    def infer_type(self, p: PackedStackParam, t: Types) -> None:
        """As they were."""
        for name, spec in zip(self.outputs(p), p.call.outputs, strict=False):
            t.assign(name, spec.dtype)

    def reference(
        self, p: PackedStackParam, inputs: Sequence[Array], ctx: ReferenceContext
    ) -> Sequence[Array]:
        """The order of the parameters is the library's own."""
        raise NoKernelError("[_onednn_RNN] only oneDNN knows the order of the parameters")


PACK, PACKED = PackStack(), PackedStack()


def pack(call: KernelCall) -> object:
    """parameters -> packed parameters."""
    p: Any = call.params
    return stack(p.call).pack(tensors(call.inputs), tensors(call.outputs))


def packed_rnn(call: KernelCall) -> object:
    """data, packed parameters, state[, state_cell][, lengths] -> output[, states]."""
    p: Any = call.params
    return stack(p.call, call).forward()


def pack_recurrent(graph: Graph) -> Graph:
    """Graph pass: packs the parameters of recurrent stacks that are variables or prepared."""
    if not graph.context.device_type.startswith("cpu"):
        return graph
    mapping: dict[Entry, Entry] = {}
    for node in graph.find("RNN"):
        assert node.op is not None
        parameters, outputs = node.inputs[1], graph.outputs_of(node)
        hidden = outputs[node.op.num_visible_outputs(node.params) :]
        kept = any(entry in graph.readers or entry in graph.head_set for entry in hidden)
        if kept or not (parameters.node.is_variable or PREPARED in parameters.node.attrs):
            continue
        given = tuple(graph.specs[entry] for entry in node.inputs)
        call = KernelCall(node.op, node.params, given, tuple(graph.specs[e] for e in outputs), graph.context)
        size, order = stack(call).packed() if supported(call) and float32_or_bfloat16(call) else (0, ())
        if not size:
            continue
        packing, name = PackStackParam(call, size, order), f"{parameters.node.name}_packed"
        packed = graph.apply(PACK, (parameters,), name, packing, {PREPARED: "1"})[0]
        inputs = (node.inputs[0], packed, *node.inputs[2:])
        made = graph.apply(PACKED, inputs, node.name, PackedStackParam(call, size, ()), node.attrs)
        mapping.update(zip(outputs, made, strict=False))
    return graph.replace(mapping)
