# SPDX-License-Identifier: Apache-2.0
"""Installing one package brings its operators; uninstalling it takes them away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.long, pytest.mark.install]

USE = """
import mx

x = mx.nd.array([-1, 0, 2])
x.attach_grad()
with mx.autograd.record():
    y = mx.nd.quadratic(x, a=1, b=2, c=3)
y.backward()
assert y.asnumpy().tolist() == [2, 3, 11] and x.grad.asnumpy().tolist() == [0, 2, 6]
assert "coefficient of the square" in mx.nd.quadratic.__doc__
assert "coefficient of the square" in mx.sym.quadratic.__doc__
assert "quadratic" in dir(mx.nd) and "quadratic" in dir(mx.sym)

net = mx.sym.pseudo_huber(mx.sym.quadratic(mx.sym.Variable("x"), a=1, name="quad"), delta=0.5)
assert net.infer_shape(x=(2, 3)) == ([(2, 3)], [(2, 3)], [])
again = mx.sym.load_json(net.tojson())
assert again.tojson() == net.tojson()
executor = again.simple_bind(mx.cpu(), x=(2, 3))
executor.forward(is_train=True, x=mx.nd.ones((2, 3)))
executor.backward(mx.nd.ones((2, 3)))
assert executor.grad_dict["x"].shape == (2, 3)

means = mx.nd.moving_average(mx.nd.array([[3, 6, 9, 12]]), window=3)
assert means.asnumpy().tolist() == [[6, 9]]

from mx_core import kernels, operators
op = operators.get("moving_average")
tensors = kernels.TensorSpec((4,), 0), kernels.TensorSpec((2,), 0)
chosen = kernels.prepare(op, op.Param.parse({"window": 3}), tensors[:1], tensors[1:], mx.cpu())
assert chosen.variant == "example_native", chosen
print("ok")
"""

MISS = """
import mx

for module in (mx.nd, mx.sym):
    for name in ("quadratic", "pseudo_huber", "moving_average"):
        assert not hasattr(module, name), name
        assert name not in dir(module)
file = '''{"nodes": [{"op": "null", "name": "x", "inputs": []},
    {"op": "quadratic", "name": "q", "attrs": {"a": "1"}, "inputs": [[0, 0, 0]]}],
    "arg_nodes": [0], "heads": [[1, 0, 0]]}'''
try:
    mx.sym.load_json(file)
except mx.MXNetError as error:
    print(error)
assert mx.nd.contrib.quadratic(mx.nd.array([2]), a=1).asscalar() == 4
"""


def test_install_and_uninstall(environment: Callable[..., Any], example_wheel: Path) -> None:
    fresh = environment()
    assert "'quadratic'" in fresh.code(MISS)
    fresh.install(example_wheel)
    assert fresh.code(USE) == "ok\n"
    listed = fresh.mx("plugins")
    assert listed.returncode == 0 and "example_operators" in listed.stdout, listed
    fresh.pip("uninstall", "-y", "mx-example-operators")
    assert "'quadratic'" in fresh.code(MISS)
    assert "example_operators" not in fresh.mx("plugins").stdout
    left = [p for p in (fresh.folder / "lib").rglob("*example*") if "__pycache__" not in p.parts]
    assert left == []


def test_the_wheel_holds_the_module_and_no_sources(example_wheel: Path) -> None:
    import zipfile

    names = zipfile.ZipFile(example_wheel).namelist()
    assert any(name.startswith("mx_example_operators/_native") and name.endswith(".so") for name in names)
    assert "mx_example_operators/_native.pyi" in names and "mx_example_operators/py.typed" in names
    assert not [name for name in names if "csrc" in name or name.startswith("tests")]
