# SPDX-License-Identifier: Apache-2.0
"""Blocks that add losses of their own while they compute."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from mx_core.errors import ArgumentError, MXNetError
from mx_gluon.block import HybridBlock


class StochasticBlock(HybridBlock):
    """A hybrid block whose `hybrid_forward` adds losses, such as a divergence from a prior.

    `hybrid_forward` is decorated with `collectLoss` and calls `add_loss`. After a call of the block, `losses` has
    what was added.

    Threads: one at a time calls it: the losses are those of the last call.

    Parameters
    ----------
    prefix, params : as in `Block`

    Examples
    --------
    >>> class Noisy(StochasticBlock):
    ...     @StochasticBlock.collectLoss
    ...     def hybrid_forward(self, F, loc, scale):
    ...         q = Normal(loc, scale)
    ...         self.add_loss(kl_divergence(q, Normal(0.0, 1.0)))
    ...         return q.sample()
    """

    def __init__(self, prefix: str | None = None, params: Any = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self._losses: list[Any] = []
        self._added: list[Any] = []

    def add_loss(self, loss: Any) -> None:
        """Adds an NDArray or a symbol, or a list of them, to the losses of the call that is under way."""
        self._added.append(loss)

    @staticmethod
    def collectLoss(func: Callable[..., Any]) -> Callable[..., Any]:
        """Makes a `hybrid_forward` return the losses that it adds beside its output."""

        @wraps(func)
        def collecting(self: StochasticBlock, *args: Any, **kwargs: Any) -> Any:
            self._added = []
            output = func(self, *args, **kwargs)
            added, self._added = self._added, []
            return output, added

        collecting._collects = True  # type: ignore[attr-defined]
        return collecting

    #: the same under a name of Python's style
    collect_loss = collectLoss

    @property
    def losses(self) -> list[Any]:
        """What was added in the last call."""
        return self._losses

    def __call__(self, *args: Any) -> Any:
        """Computes; the losses are kept.

        Raises
        ------
        MXNetError  `hybrid_forward` is not decorated with `collectLoss`
        """
        if not getattr(type(self).hybrid_forward, "_collects", False):
            raise MXNetError(
                f"[{self.name}] {type(self).__name__}.hybrid_forward has to be decorated with "
                "StochasticBlock.collectLoss"
            )
        output, losses = super().__call__(*args)
        self._losses = list(losses)
        return output


class StochasticSequential(StochasticBlock):
    """Blocks one after the other; their losses are its losses, a list per stochastic block.

    Threads: as `StochasticBlock`.

    Parameters
    ----------
    prefix, params : as in `Block`
    """

    def add(self, *blocks: HybridBlock) -> None:
        """Adds blocks at the end."""
        for block in blocks:
            self.register_child(block)

    @StochasticBlock.collectLoss
    def hybrid_forward(self, F: Any, x: Any, *args: Any) -> Any:
        """Computes one block with the output of the other; what follows the first output are more arguments."""
        for block in self._children.values():
            x = block(x, *args)
            args = ()
            if isinstance(x, (list, tuple)):
                x, args = x[0], tuple(x[1:])
            if isinstance(block, StochasticBlock):
                self.add_loss(block.losses)
        return (x, *args) if args else x

    def __len__(self) -> int:
        return len(self._children)

    def __getitem__(self, key: int | slice) -> Any:
        """A block, or a StochasticSequential of those of a slice."""
        layers = list(self._children.values())
        if isinstance(key, slice):
            part = type(self)(prefix=self._prefix)
            with part.name_scope():
                part.add(*layers[key])  # type: ignore[arg-type]
            return part
        if not -len(layers) <= key < len(layers):
            raise ArgumentError(f"[{self.name}] there are {len(layers)} blocks, got index {key}")
        return layers[key]
