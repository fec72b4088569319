# SPDX-License-Identifier: Apache-2.0
"""What tests of passes on image networks share: a small residual network, and running it both ways."""

from __future__ import annotations

from typing import Any

import numpy as np

from mx_ndarray import nd
from mx_symbol import sym
from mx_symbol.passes.stages import trace


def unit(x: Any, channels: int, name: str, kernel: int = 3, stride: int = 1, groups: int = 1) -> Any:
    """Convolution and batch normalisation."""
    x = sym.Convolution(
        x, kernel=(kernel, kernel), num_filter=channels, stride=(stride, stride), num_group=groups,
        pad=(kernel // 2, kernel // 2), no_bias=True, name=f"{name}_conv",
    )  # fmt: skip
    return sym.BatchNorm(x, fix_gamma=False, name=f"{name}_bn")


def residual_network(groups: int = 1) -> Any:
    """Stem, pooling, two residual blocks, joined branches, a classifier."""
    x = sym.relu(unit(sym.Variable("data"), 16, "stem", stride=2))
    x = sym.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="max")
    y = sym.relu(unit(x, 16, "a", groups=groups))
    x = sym.relu(unit(y, 16, "b") + x)
    x = sym.relu(unit(x, 32, "c", stride=2) + unit(x, 32, "d", kernel=1, stride=2))
    x = sym.Concat(x, sym.clip(unit(x, 32, "e"), 0.0, 6.0), dim=1)
    x = sym.Pooling(x, global_pool=True, kernel=(1, 1), pool_type="avg")
    return sym.FullyConnected(sym.Flatten(x), num_hidden=5, name="fc")


def bound(net: Any, shape: tuple[int, ...], passes: str, **options: Any) -> Any:
    """An executor with random parameters."""
    executor = net.simple_bind(passes=passes, data=shape, **options)
    rng = np.random.default_rng(4)
    for name, array in {**executor.arg_dict, **executor.aux_dict}.items():
        values = rng.standard_normal(array.shape) * (1.0 if name == "data" else 0.3)
        array[:] = np.abs(values) + 0.7 if name.endswith(("var", "gamma")) else values
    return executor


def step(executor: Any) -> dict[str, Any]:
    """Output, gradients and statistics of a training step, then the output of inference."""
    executor.forward(is_train=True)
    rng = np.random.default_rng(5)  # a constant gradient would vanish in batch normalisation
    executor.backward([nd.array(rng.standard_normal(out.shape)) for out in executor.outputs])
    found = {name: g.asnumpy() for name, g in executor.grad_dict.items() if g is not None}
    found |= {name: a.asnumpy() for name, a in executor.aux_dict.items()}
    return {**found, "output": executor.outputs[0].asnumpy(), "inference": executor.forward()[0].asnumpy()}


def assert_same(net: Any, shape: tuple[int, ...], passes: str) -> None:
    """With these passes and without any, a step and an inference agree."""
    optimised, plain = (step(bound(net, shape, chosen)) for chosen in (passes, "none"))
    largest = max(float(np.abs(value).max()) for value in plain.values())
    for name, value in plain.items():
        # Of gradients that vanish there is only rounding, which is that of the terms that cancel.
        scale = np.abs(value).max() + 0.1 + 0.01 * largest
        np.testing.assert_allclose(optimised[name] / scale, value / scale, atol=2e-4, err_msg=name)


def operators_after(net: Any, name: str, shapes: dict[str, tuple[int, ...]], **options: Any) -> list[str]:
    """Names of the operators that a pass leaves."""
    (found,) = [s for s in trace(net, shapes, **options) if s.name == name]
    return [n.op.name for n in found.after.nodes]
