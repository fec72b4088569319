# SPDX-License-Identifier: Apache-2.0
"""Mixed precision: which operators compute in a 16-bit type, and the casts that follow from it.

As Micikevicius et al., Mixed Precision Training (ICLR 2018), with bfloat16, which has the range of float32, so
that losses need no scaling (Kalamkar et al., A Study of BFLOAT16 for Deep Learning Training, 2019). Casts are
`amp_cast` nodes, whose gradients cast back: parameters and their gradients stay float32.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from mx_core import operators
from mx_symbol.graph import Entry, Node, rewrite
from mx_symbol.passes.changes import changed

#: products, convolutions and recurrent layers, which accumulate in float32 for all inputs
LOW = frozenset(
    {"Convolution", "Deconvolution", "FullyConnected", "RNN", "dot", "batch_dot", "_linalg_gemm2",
     "_contrib_interleaved_matmul_selfatt_qk", "_contrib_interleaved_matmul_selfatt_valatt",
     "_contrib_interleaved_matmul_encdec_qk", "_contrib_interleaved_matmul_encdec_valatt"}
)  # fmt: skip
#: what computes in the type of its data: low where all of them are, else float32
WIDEST = frozenset(
    {"Activation", "LeakyReLU", "relu", "sigmoid", "tanh", "softsign", "clip", "abs", "negative", "Dropout",
     "Pooling", "BatchNorm", "Concat", "stack", "add_n", "SliceChannel", "slice", "slice_axis", "slice_like",
     "Reshape", "Flatten", "transpose", "SwapAxis", "expand_dims", "squeeze", "Pad", "tile", "repeat", "_copy",
     "elemwise_add", "elemwise_sub", "elemwise_mul", "broadcast_add", "broadcast_sub", "broadcast_mul",
     "_plus_scalar", "_minus_scalar", "_rminus_scalar", "_mul_scalar", "_div_scalar", "_maximum", "_minimum",
     "_maximum_scalar", "_minimum_scalar", "BlockGrad"}
)  # fmt: skip
#: operators of these that are float32 for some values of a parameter
CONDITIONAL: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("Activation", "act_type", ("softrelu",)), ("LeakyReLU", "act_type", ("elu", "selu", "rrelu")),
)  # fmt: skip
#: inputs that alone decide, the first ones before the one named; it and those after it have types of their own
_OWN_TYPES = {"BatchNorm": "gamma", "RNN": "sequence_length"}


@dataclass(frozen=True)
class Lists:
    """Which operators compute in which type; what is in none of them is float32.

    Attributes
    ----------
    low : names of operators that compute in the 16-bit type
    widest : names of those that follow what they read
    conditional : (name, parameter, values for which it is float32)
    excluded : names of nodes that are float32
    """

    low: frozenset[str] = LOW
    widest: frozenset[str] = WIDEST
    conditional: tuple[tuple[str, str, tuple[str, ...]], ...] = CONDITIONAL
    excluded: frozenset[str] = frozenset()

    def kind(self, node: Node) -> str:
        """ "low", "widest" or "float32"."""
        name = "" if node.op is None else node.op.name
        if node.name in self.excluded:
            return "float32"
        for op, parameter, values in self.conditional:
            if name == op and str(getattr(node.params, parameter)) in values:
                return "float32"
        return "low" if name in self.low else "widest" if name in self.widest else "float32"


def lowered(
    heads: Sequence[Entry], dtype: str, lists: Lists, others: Collection[Entry] = ()
) -> tuple[Entry, ...]:
    """The graph with casts where operators of one type read values of another; heads are float32.

    Whole numbers and float64 pass casts as they are.

    Parameters
    ----------
    others : values known to be of another floating-point type; what follows them computes in the type that it has
    """
    low: set[Entry] = set()
    casts: dict[tuple[Entry, str], Entry] = {}
    cast_op = operators.get("amp_cast")

    def cast(entry: Entry, to: str) -> Entry:
        if (entry in low) == (to == dtype):
            return entry
        if (entry, to) not in casts:
            params = cast_op.Param.parse({"dtype": to}, op="amp_cast")
            attrs = {k: v for k, v in entry.node.attrs.items() if k == "__ctx_group__"}
            made = Entry(Node(cast_op, params, f"{entry.name}_amp_cast_{to}", attrs, [entry]))
            casts[entry, to] = made
            if to == dtype:
                low.add(made)
        return casts[entry, to]

    def replace(node: Node, inputs: list[Entry]) -> list[Entry] | None:
        if node.op is None:
            return None
        kind, n = lists.kind(node), _following(node)
        becomes = kind == "low" or (kind == "widest" and bool(inputs) and all(e in low for e in inputs[:n]))
        becomes = becomes and not any(entry in others for entry in node.inputs)
        given = [cast(e, dtype if becomes and i < n else "float32") for i, e in enumerate(inputs)]
        kept = node if given == node.inputs else node.copy(given)
        outputs = [Entry(kept, i) for i in range(node.num_outputs)]
        if becomes:
            low.update(outputs[:1] if node.op.name == "BatchNorm" else outputs)
        return outputs

    made = rewrite(heads, replace)
    return tuple(cast(entry, "float32") for entry in made)


def first_own_input(name: str) -> tuple[str, int]:
    """Name and number of the first input of an operator that has a type of its own; "" and a large one if none has."""
    first = _OWN_TYPES.get(name, "")
    return first, operators.get(name).arguments.index(first) if first else 1 << 30


def _following(node: Node) -> int:
    """How many inputs, the first ones, are in the type that a node computes in."""
    assert node.op is not None
    first_own = _OWN_TYPES.get(node.op.name)
    return node.input_names.index(first_own) if first_own in node.input_names else len(node.inputs)


def lists_from(
    low: Sequence[str] | None = None,
    float32: Sequence[str] | None = None,
    conditional: Sequence[tuple[str, str, Sequence[str]]] | None = None,
    excluded: Sequence[str] | None = None,
) -> Lists:
    """The usual lists, with what a caller moves.

    Raises
    ------
    UnknownOperatorError  an operator does not exist
    """
    low_names = {operators.get(name).name for name in low or ()}
    exact = {operators.get(name).name for name in float32 or ()}
    cases = tuple((operators.get(op).name, name, tuple(map(str, v))) for op, name, v in conditional or ())
    usual = Lists()
    return Lists(
        (usual.low | low_names) - exact,
        usual.widest - low_names - exact,
        (*usual.conditional, *cases),
        frozenset(excluded or ()),
    )


_current = Lists()
_dtype = "bfloat16"


def current_dtype() -> str:
    """The 16-bit type of the pass `amp`."""
    return _dtype


def current() -> Lists:
    """What the pass `amp` goes by."""
    return _current


def use(lists: Lists, dtype: str = "bfloat16") -> None:
    """Makes the pass `amp` go by other lists, and compute in another 16-bit type, in this process."""
    global _current, _dtype
    _current, _dtype = lists, dtype
    changed()
