# SPDX-License-Identifier: Apache-2.0
"""Layers of one weight matrix: fully connected ones, and rows chosen by index."""

from __future__ import annotations

from typing import Any

from mx_core.errors import ArgumentError
from mx_gluon.block import HybridBlock
from mx_gluon.nn.activation import Activation
from mx_gluon.parameter import Parameter
from mx_gluon.parameter.filling import Init


class Dense(HybridBlock):
    """`activation(x · weightᵀ + bias)`.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    units : int
        Size of the output's last axis.
    activation : str, optional
        As for `Activation`.
    use_bias : bool
    flatten : bool
        Whether all axes but the first are one; without it the last axis is transformed.
    dtype : type or str
        Of the parameters.
    weight_initializer, bias_initializer : Initializer or str
    in_units : int
        Size of the input; 0 is found out at the first batch.

    Shapes: x (N, …), output (N, units); with `flatten=False` x (…, in_units), output (…, units).
    """

    def __init__(
        self,
        units: int,
        activation: str | None = None,
        use_bias: bool = True,
        flatten: bool = True,
        dtype: Any = "float32",
        weight_initializer: Init = None,
        bias_initializer: Init = "zeros",
        in_units: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._flatten = flatten
        with self.name_scope():
            self._units = units
            self._in_units = in_units
            self.weight = self.params.get(
                "weight",
                shape=(units, in_units),
                init=weight_initializer,
                dtype=dtype,
                allow_deferred_init=True,
            )
            self.bias: Parameter | None = None
            if use_bias:
                self.bias = self.params.get(
                    "bias", shape=(units,), init=bias_initializer, dtype=dtype, allow_deferred_init=True
                )
            self.act = None if activation is None else Activation(activation, prefix=activation + "_")

    def hybrid_forward(self, F: Any, x: Any, weight: Any, bias: Any = None) -> Any:
        """The product, with the activation."""
        made = F.FullyConnected(
            x, weight, bias, no_bias=bias is None, num_hidden=self._units, flatten=self._flatten, name="fwd"
        )
        return made if self.act is None else self.act(made)

    def __repr__(self) -> str:
        units, size = self.weight.shape or (self._units, 0)
        return f"{type(self).__name__}({size or None} -> {units}, {self.act or 'linear'})"


class Embedding(HybridBlock):
    """Rows of a table, chosen by index.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    input_dim : int
        Rows of the table.
    output_dim : int
        Size of a row.
    dtype : type or str
        Of the table.
    weight_initializer : Initializer or str
    sparse_grad : False
        Gradients are dense.

    Shapes: x (…), output (…, output_dim).

    Raises
    ------
    ArgumentError  `sparse_grad` is set
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        dtype: Any = "float32",
        weight_initializer: Init = None,
        sparse_grad: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if sparse_grad:
            raise ArgumentError(
                f"[{self.name}] sparse_grad: expected False, got {sparse_grad}; gradients are dense"
            )
        self._kwargs = {
            "input_dim": input_dim, "output_dim": output_dim, "dtype": dtype, "sparse_grad": sparse_grad,
        }  # fmt: skip
        self.weight = self.params.get(
            "weight",
            shape=(input_dim, output_dim),
            init=weight_initializer,
            dtype=dtype,
            allow_deferred_init=True,
        )

    def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:
        """The rows."""
        return F.Embedding(x, weight, name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        return "{}({input_dim} -> {output_dim}, {dtype})".format(type(self).__name__, **self._kwargs)
