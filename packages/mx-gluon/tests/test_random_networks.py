# SPDX-License-Identifier: Apache-2.0
"""Random networks: graphs compute and differentiate as call by call, files bring everything back."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_gluon import HybridBlock, SymbolBlock, nn
from mx_ndarray import autograd, nd

pytestmark = pytest.mark.long

LAYERS: dict[str, Callable[[], HybridBlock]] = {
    "dense": lambda: nn.Dense(3),
    "dense_tanh": lambda: nn.Dense(4, activation="tanh", flatten=False),
    "norm": lambda: nn.BatchNorm(),
    "layer_norm": lambda: nn.LayerNorm(),
    "prelu": lambda: nn.PReLU(),
    "swish": lambda: nn.Swish(),
    "square": lambda: nn.HybridLambda(lambda F, x: F.square(x) * 0.5),
}


class Residual(HybridBlock):
    """A layer whose result is added to its input twice, by lists."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.inner = nn.Dense(1, flatten=False)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.broadcast_add(x, self.inner(x))


networks = st.lists(st.sampled_from([*LAYERS, "residual", "nested"]), min_size=1, max_size=5)


def built(kinds: list[str]) -> nn.HybridSequential:
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        for kind in kinds:
            if kind == "nested":
                inner = nn.HybridSequential()
                with inner.name_scope():
                    inner.add(nn.Dense(2), Residual())
                net.add(inner)
            else:
                net.add(Residual() if kind == "residual" else LAYERS[kind]())
    return net


def run(net: Any, x: Any) -> list[np.ndarray[Any, Any]]:
    """Outputs, and gradients of all parameters and of the input, of one step in training."""
    x.attach_grad()
    with autograd.record():
        out = net(x)
        loss = (out * out).sum()
    loss.backward()
    params = net.collect_params().values()
    return [
        out.asnumpy(), x.grad.asnumpy(),
        *(param.data().asnumpy() for param in params),
        *(param.grad().asnumpy() for param in params if param.grad_req != "null"),
    ]  # fmt: skip


@settings(deadline=None, max_examples=40)
@given(networks, st.integers(1, 4), st.integers(1, 5), st.integers(0, 2**31))
def test_graph_equals_calls(kinds: list[str], batch: int, size: int, seed: int) -> None:
    values = np.random.default_rng(seed).uniform(-1, 1, (batch, size)).astype("float32")
    one, other = built(kinds), built(kinds)
    one.initialize("xavier" if seed % 2 else None)
    one(nd.array(values))
    other.initialize()
    other.hybridize()
    other(nd.array(values))
    for a, b in zip(one.collect_params().values(), other.collect_params().values(), strict=True):
        assert (a.name, a.shape) == (b.name, b.shape)
        b.set_data(a.data())
    for got, expected in zip(run(other, nd.array(values)), run(one, nd.array(values)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-3, atol=2e-4)


@settings(deadline=None, max_examples=25)
@given(networks, st.integers(1, 4))
def test_files_bring_everything_back(kinds: list[str], size: int) -> None:
    x = nd.array(np.linspace(-1, 1, 2 * size, dtype="float32").reshape(2, size))
    net = built(kinds)
    net.initialize()
    net.hybridize()
    expected = net(x).asnumpy()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net"
        net.save_parameters(f"{path}.params")
        net.export(str(path))
        again = built(kinds)
        again.load_parameters(f"{path}.params")
        imported = SymbolBlock.imports(f"{path}-symbol.json", "data", f"{path}-0000.params")
    np.testing.assert_allclose(again(x).asnumpy(), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(imported(x).asnumpy(), expected)
