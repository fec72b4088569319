# SPDX-License-Identifier: Apache-2.0
"""Transforms of transforms."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from mx_gluon.block import Block, HybridBlock
from mx_gluon.nn import HybridSequential, Sequential


class Compose(Sequential):
    """Transforms one after the other. Neighbours that are hybrid blocks are children of one chain.

    The chains are not hybridised: images have many sizes, and a graph is compiled for each.

    Threads: any.

    Parameters
    ----------
    transforms : sequence of Block
    """

    def __init__(self, transforms: Sequence[Block]) -> None:
        super().__init__()
        for hybrid, group in groupby(transforms, lambda each: isinstance(each, HybridBlock)):
            blocks = list(group)
            if hybrid and len(blocks) > 1:
                chain = HybridSequential()
                chain.add(*blocks)  # type: ignore[arg-type]  # groupby has looked
                blocks = [chain]
            self.add(*blocks)


class RandomApply(Sequential):
    """A transform that is applied with a probability, which Python's `random` draws.

    Threads: any.

    Parameters
    ----------
    transforms : callable
    p : float
        The probability.
    """

    def __init__(self, transforms: Any, p: float = 0.5) -> None:
        super().__init__()
        self.transforms = transforms
        self.p = p

    def forward(self, x: Any, *args: Any) -> Any:
        """The image, transformed or as it is."""
        return x if self.p < random.random() else self.transforms(x)
