# SPDX-License-Identifier: Apache-2.0
"""Names of blocks: `dense0_`, and within another block's scope `net0_dense0_`."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar

from mx_gluon.parameter import ParameterDict
from mx_symbol.symbol.naming import NameManager, Prefix

if TYPE_CHECKING:
    from mx_gluon.block.block import Block


class BlockScope:
    """Blocks made in its `with` block are named after the block that it belongs to, and so are symbols.

    Threads: each has its own current scope; several may be in the same one.
    """

    _current: ClassVar[threading.local] = threading.local()

    def __init__(self, block: Block) -> None:
        self._block = block
        self._counter: dict[str, int] = {}

    @staticmethod
    def create(prefix: str | None, params: ParameterDict | None, hint: str) -> tuple[str, ParameterDict]:
        """Prefix and parameters of a new block.

        Parameters
        ----------
        prefix : str, optional
            The given one; by default the next of `hint`.
        params : ParameterDict, optional
            With which to share.
        hint : str
            Kind of the block, such as `dense`.
        """
        current: BlockScope | None = getattr(BlockScope._current, "value", None)
        if current is None:
            if prefix is None:
                prefix = NameManager.current.get(None, hint) + "_"
            return prefix, ParameterDict(prefix) if params is None else ParameterDict(params.prefix, params)
        if prefix is None:
            number = current._counter.get(hint, 0)
            current._counter[hint] = number + 1
            prefix = f"{hint}{number}_"
        outer = current._block
        if params is None:
            made = ParameterDict(outer.params.prefix + prefix, outer.params._shared)
        else:
            made = ParameterDict(params.prefix, params)
        return outer.prefix + prefix, made

    @staticmethod
    def _outer() -> list[tuple[BlockScope | None, Prefix]]:
        """For each scope that this thread has entered, what was current before."""
        entered: list[tuple[BlockScope | None, Prefix]] = BlockScope._current.__dict__.setdefault(
            "entered", []
        )
        return entered

    def __enter__(self) -> BlockScope:
        if self._block._empty_prefix:
            return self
        names = Prefix(self._block.prefix)
        self._outer().append((getattr(BlockScope._current, "value", None), names))
        BlockScope._current.value = self
        names.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._block._empty_prefix:
            return
        BlockScope._current.value, names = self._outer().pop()
        names.__exit__(kind, value, trace)
