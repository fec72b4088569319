# SPDX-License-Identifier: Apache-2.0
"""Blocks that call other blocks one after the other."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from mx_gluon.block import Block, HybridBlock
from mx_gluon.block.block import _listed


class Sequential(Block):
    """Calls blocks one after the other, each with what the one before returned.

    Threads: as `Block`.

    Examples
    --------
    >>> net = Sequential()
    >>> with net.name_scope():
    ...     net.add(Dense(10, activation="relu"), Dense(2))
    """

    _is_chain = True

    def add(self, *blocks: Block) -> None:
        """Adds blocks at the end."""
        for block in blocks:
            self.register_child(block)

    def forward(self, x: Any) -> Any:
        """What the last block returns."""
        for block in self._children.values():
            x = block(x)
        return x

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Has hybrid blocks within compute as one graph each; warns if all are hybrid."""
        if self._children and all(isinstance(each, HybridBlock) for each in self._children.values()):
            warnings.warn(
                f"[{self.name}] all blocks of this Sequential are hybrid; HybridSequential makes one graph of them",
                stacklevel=2,
            )
        super().hybridize(active, **kwargs)

    def __repr__(self) -> str:
        return _listed(self, self._children)

    def __getitem__(self, key: int | slice) -> Any:
        return _chosen(self, key)

    def __len__(self) -> int:
        return len(self._children)

    def __iter__(self) -> Iterator[Block]:
        return iter(list(self._children.values()))


class HybridSequential(HybridBlock):
    """As `Sequential`, of hybrid blocks; all together make one graph.

    Threads: as `HybridBlock`.
    """

    _is_chain = True

    def add(self, *blocks: HybridBlock) -> None:
        """Adds blocks at the end."""
        for block in blocks:
            self.register_child(block)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """What the last block returns."""
        for block in self._children.values():
            x = block(x)
        return x

    def __repr__(self) -> str:
        return _listed(self, self._children)

    def __getitem__(self, key: int | slice) -> Any:
        return _chosen(self, key)

    def __len__(self) -> int:
        return len(self._children)

    def __iter__(self) -> Iterator[Block]:
        return iter(list(self._children.values()))


def _chosen(chain: Sequential | HybridSequential, key: int | slice) -> Any:
    """One block, or a chain of several that has the same prefix."""
    layers: Any = list(chain._children.values())[key]
    if not isinstance(layers, list):
        return layers
    made = type(chain)(prefix=chain.prefix)
    with made.name_scope():
        made.add(*layers)
    return made
