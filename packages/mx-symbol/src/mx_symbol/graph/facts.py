# SPDX-License-Identifier: Apache-2.0
"""What a declaration says about an operator with its parameters, computed once for all equal nodes.

Deep networks repeat themselves: thousands of nodes have some dozens of signatures. All that depends on operator and
parameters alone is kept here, and so is what the inference rules gave for the shapes and types that came by.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from mx_core.cached import cached_property
from mx_core.kernels import TensorSpec
from mx_core.operator import NoParams, Operator, gradient_of, infer_shapes, infer_types

if TYPE_CHECKING:
    from mx_core.operator import Gradient, Params

#: sets of parameters, over all operators, whose facts are kept
KEPT = 4096
#: signatures per set of parameters whose inferred shapes and types are kept
SIGNATURES = 64
#: operators that users may declare anew under the same name while the process runs
_REDECLARED = frozenset({"Custom"})


class Facts:
    """An operator with parameters.

    Threads: belongs to the one that compiles.

    Attributes
    ----------
    op, params : what it is about
    inputs : names of the inputs, auxiliary states last
    outputs : names of the outputs, hidden ones last
    mutated : positions of the inputs that running it writes: auxiliary and optimizer states
    unread : positions of the inputs of which only shape and type matter
    """

    def __init__(self, op: Operator, params: Params) -> None:
        self.op = op
        self.params = params
        arguments = tuple(op.inputs(params))
        self.inputs = (*arguments, *op.aux(params))
        self.outputs = tuple(op.outputs(params))
        auxiliary = range(len(arguments), len(self.inputs))
        self.mutated = frozenset((*auxiliary, *op.mutated_inputs(params)))
        self.unread = op.shape_only_inputs(params)
        self._shapes: dict[Any, Any] = {}
        self._types: dict[Any, Any] = {}
        self._specs: dict[Any, tuple[TensorSpec, ...]] = {}

    @cached_property
    def inplace(self) -> tuple[tuple[int, int], ...]:
        """Pairs (input, output) that may share memory."""
        return tuple(self.op.inplace(self.params))

    @cached_property
    def gradient(self) -> Gradient:
        """The gradient as data."""
        return gradient_of(self.op, self.params)

    @cached_property
    def read_out_grads(self) -> frozenset[int]:
        """Outputs whose gradients the gradient reads."""
        return frozenset(term.index for term in self.gradient.reads if term.kind == "out_grad")

    @cached_property
    def draws(self) -> bool:
        """True when it may draw random numbers."""
        return self.op.is_random or type(self.op).random_blocks is not Operator.random_blocks

    def draws_for(self, shapes: Sequence[tuple[int, ...]]) -> bool:
        """True when a run that makes outputs of these shapes draws random numbers."""
        if type(self.op).random_blocks is Operator.random_blocks:
            return self.op.is_random
        return self.op.random_blocks(self.params, shapes) > 0

    @cached_property
    def n_visible(self) -> int:
        """Outputs that a caller sees."""
        return self.op.num_visible_outputs(self.params)

    def infer_shapes(self, inputs: tuple[Any, ...], outputs: tuple[Any, ...], node: str) -> tuple[Any, Any]:
        """`mx_core.operator.infer_shapes`, remembered.

        Raises
        ------
        ShapeError  contradiction; names operator, node, argument and both shapes
        """
        found = self._shapes.get((inputs, outputs))
        if found is None:
            found = infer_shapes(self.op, self.params, inputs, outputs, node)
            _keep(self._shapes, (inputs, outputs), found)
        return found

    def infer_types(self, inputs: tuple[Any, ...], outputs: tuple[Any, ...], node: str) -> tuple[Any, Any]:
        """`mx_core.operator.infer_types`, remembered.

        Raises
        ------
        DTypeError  contradiction; names operator, node, argument and both types
        """
        found = self._types.get((inputs, outputs))
        if found is None:
            found = infer_types(self.op, self.params, inputs, outputs, node)
            _keep(self._types, (inputs, outputs), found)
        return found

    def specs(
        self, inputs: tuple[tuple[tuple[int, ...], int], ...], node: str
    ) -> tuple[TensorSpec, ...] | None:
        """Shapes and types of the outputs from (shape, type code) of every input, remembered.

        None where the inputs do not tell them.

        Raises
        ------
        ShapeError, DTypeError  the operator does not take such inputs
        """
        found = self._specs.get(inputs)
        if found is None:
            unknown = (None,) * len(self.outputs)
            _, shapes = self.infer_shapes(tuple([shape for shape, _ in inputs]), unknown, node)
            _, codes = self.infer_types(tuple([code for _, code in inputs]), unknown, node)
            if any(s is None or -1 in s or c is None for s, c in zip(shapes, codes, strict=True)):
                return None
            found = tuple([spec_of(shape, code) for shape, code in zip(shapes, codes, strict=True)])
            _keep(self._specs, inputs, found)
        return found


@lru_cache(maxsize=KEPT)
def spec_of(shape: tuple[int, ...], code: int) -> TensorSpec:
    """Shape and type; equal ones are one object, so that signatures are told apart by identity."""
    return TensorSpec(shape, code)


def _keep(table: dict[Any, Any], key: Any, value: Any) -> None:
    if len(table) >= SIGNATURES:
        table.clear()
    table[key] = value


_kept = lru_cache(maxsize=KEPT)(Facts)
#: the same by identity of operator and parameters, which are held, so that looking up hashes no parameters
_by_identity: dict[tuple[int, int], tuple[Operator, Params, Facts]] = {}


def facts_of(op: Operator, params: Params) -> Facts:
    """The facts of an operator with parameters; equal parameters share them."""
    if op.name in _REDECLARED:
        return Facts(op, params)
    key = (id(op), 0 if type(params) is NoParams else id(params))
    found = _by_identity.get(key)
    if found is None:
        if len(_by_identity) >= KEPT:
            _by_identity.clear()
        found = _by_identity[key] = (op, params, _kept(op, params))
    return found[2]
