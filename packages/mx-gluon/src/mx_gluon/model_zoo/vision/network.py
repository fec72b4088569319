# SPDX-License-Identifier: Apache-2.0
"""What the networks share."""

from __future__ import annotations

import os
from typing import Any, TypeVar

from mx_core.context import Context
from mx_gluon.block import HybridBlock
from mx_gluon.model_zoo.model_store import get_model_file

Root = str | os.PathLike[str] | None
N = TypeVar("N", bound=HybridBlock)


class Network(HybridBlock):
    """Features of images, and an output from them. Threads: as `HybridBlock`."""

    features: Any
    output: Any

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Scores of classes (N, classes) from images (N, 3, height, width)."""
        return self.output(self.features(x))


def filled(net: N, name: str, pretrained: bool, ctx: Context | None, root: Root) -> N:
    """A network, with trained parameters from a file if they are asked for."""
    if pretrained:
        net.load_parameters(get_model_file(name, root), ctx=ctx)
    return net
