# SPDX-License-Identifier: Apache-2.0
"""Layers with bias, residual and activation in one primitive, their weights packed beforehand.

`pack_weights` is a graph pass: where a weight is known before a run, the reorder that the primitive would
do each time becomes a node that runs only when the weight was written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_core.errors import NoKernelError
from mx_core.graph import PREPARED, Entry, Graph, Node
from mx_core.kernels import KernelCall, TensorSpec
from mx_core.operator import Operator, Params
from mx_operators_cpu.convolution.convolution import options_of
from mx_operators_cpu.library import native
from mx_operators_cpu.signature import tensors

if TYPE_CHECKING:
    from mx_core.context import Context
    from mx_core.operator import Array, ReferenceContext, Shapes, Types

_FLOAT32 = dtypes.code("float32")
_TO_LAST = (0, 2, 3, 1)


def _described(call: KernelCall) -> native.FusedLayer:
    """The call as the native part knows it."""
    p: Any = call.params
    convolution = options_of(p) if call.op.name == "_fused_Convolution" else None
    return native.FusedLayer(
        tensors(call.inputs), tensors(call.outputs), convolution, weight_shape=p.packed or call.inputs[1].shape,
        biased=not p.no_bias, residual=p.residual, packed=bool(p.packed), activation=p.activation or "",
        alpha=p.alpha, beta=p.beta,
    )  # fmt: skip


def layer(call: KernelCall) -> object:
    """data, weight[, bias][, residual] -> output."""
    return _described(call).plan()


def _reading(call: KernelCall) -> tuple[Any, ...]:
    """How a layer takes its weight's axes."""
    p: Any = call.params
    return getattr(p, "layout", None), getattr(p, "num_group", 1)


class PackParam(Params):
    """The call whose weight is packed; those whose primitives want one order of one weight are equal.

    `channels_first` tells that the weight comes with its channels first, though the layer's are last; `scaled`, that
    packing multiplies every filter by its element of a second input.
    """

    op_name = "_onednn_pack_weight"
    call: KernelCall
    size: int
    channels_first: bool
    scaled: bool

    def __init__(
        self,
        call: KernelCall,
        size: int,
        order: tuple[int, ...],
        channels_first: bool = False,
        scaled: bool = False,
    ) -> None:
        how = {"channels_first": channels_first, "scaled": scaled}
        key = (call.op.name, *_reading(call), order, size) if order else (call, size)
        self._hold(call=call, size=size, **how, key=(*key, *how.values()), scalars=())

    def attrs_all(self) -> dict[str, str]:
        """The number of elements."""
        return {"size": str(self.size)}


class PackWeight(Operator[PackParam]):
    """A layer's weight in the order that its primitive computes in."""

    name = "_onednn_pack_weight"
    arguments = ("weight", "scale")
    differentiable = False  # of inference alone
    custom_gradient = True

    def inputs(self, p: PackParam) -> tuple[str, ...]:
        """scale if scaled."""
        return self.arguments if p.scaled else self.arguments[:1]

    def infer_shape(self, p: PackParam, s: Shapes) -> None:
        """A vector."""
        s.assign("output", (p.size,))

    def infer_type(self, p: PackParam, t: Types) -> None:
        """float32, for any contents."""
        t.assign("output", _FLOAT32)

    def reference(self, p: PackParam, inputs: Sequence[Array], ctx: ReferenceContext) -> Sequence[Array]:
        """The order is the library's own."""
        raise NoKernelError("[_onednn_pack_weight] only oneDNN knows the order")


PACK = PackWeight()


def pack(call: KernelCall) -> object:
    """weight[, scale of every filter] -> packed weight."""
    p: Any = call.params
    described = _described(p.call)
    return described.pack(tensors(call.inputs), tensors(call.outputs), p.channels_first)


def pack_weights(graph: Graph) -> Graph:
    """Graph pass: packs the weights of fused layers that are variables or prepared."""
    if not graph.context.device_type.startswith("cpu"):
        return graph
    mapping: dict[Entry, Entry] = {}
    known: dict[
        tuple[KernelCall, bool, bool], tuple[PackParam, Params] | None
    ] = {}  # networks repeat their layers
    for node in graph.find("_fused_Convolution", "_fused_FullyConnected"):
        weight = node.inputs[1]
        if node.params.packed or not (weight.node.is_variable or PREPARED in weight.node.attrs):
            continue
        assert node.op is not None
        outputs = graph.outputs_of(node)
        source = _channels_first(weight)
        sources = _before_scaling(graph, source)
        alike = (_call(graph, node, outputs, graph.context), source is not weight, len(sources) > 1)
        if alike not in known:
            known[alike] = _packing(*alike)
        packing = known[alike]
        if packing is None:
            continue
        params, layer_params = packing
        packed = graph.apply(PACK, sources, f"{weight.node.name}_packed", params, {PREPARED: "1"})[0]
        inputs = (node.inputs[0], packed, *node.inputs[2:])
        made = graph.apply(node.op, inputs, node.name, layer_params, node.attrs)
        mapping.update(zip(outputs, made, strict=True))
    return graph.replace(mapping)


def _packing(call: KernelCall, channels_first: bool, scaled: bool) -> tuple[PackParam, Params] | None:
    """Parameters of the packing and of the layer that reads a packed weight; None where no primitive has an order."""
    described = _described(call)
    size = described.packed_size()
    if not size:
        return None
    params = PackParam(call, size, described.packed_format(), channels_first, scaled)
    return params, call.params.replace(packed=call.inputs[1].shape)


def _channels_first(weight: Entry) -> Entry:
    """What a weight was before its channels were moved last, which packing does on its way; else the weight."""
    node = weight.node
    moved = node.op is not None and node.op.name == "transpose" and PREPARED in node.attrs
    return node.inputs[0] if moved and node.params.axes == _TO_LAST else weight


def _before_scaling(graph: Graph, weight: Entry) -> tuple[Entry, ...]:
    """A weight and the scale of its filters, by which packing multiplies on its way; else the weight alone."""
    node, spec = weight.node, graph.specs[weight]
    if node.op is None or node.op.name != "broadcast_mul" or PREPARED not in node.attrs:
        return (weight,)
    whole, scale = node.inputs
    per_filter = (spec.shape[0], *(1,) * (len(spec.shape) - 1))
    shapes = [graph.specs[entry].shape for entry in (whole, scale)]
    if spec.dtype != _FLOAT32 or shapes != [spec.shape, per_filter]:
        return (weight,)
    made = scale.node.op
    return whole, scale.node.inputs[0] if made is not None and made.name == "Reshape" else scale


def _call(graph: Graph, node: Node, outputs: Sequence[Entry], context: Context) -> KernelCall:
    assert node.op is not None
    inputs: tuple[TensorSpec, ...] = tuple(graph.specs[entry] for entry in node.inputs)
    return KernelCall(node.op, node.params, inputs, tuple(graph.specs[e] for e in outputs), context)
