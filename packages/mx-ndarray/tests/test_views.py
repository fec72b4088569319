# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from mx_core import context
from mx_core.errors import ArgumentError, ShapeError
from mx_ndarray import autograd, nd


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ((4, 6), (4, 6)),
        ((-1,), (24,)),
        ((0, -1), (2, 12)),
        ((-2,), (2, 3, 4)),
        ((6, 1, -2), (6, 1, 4)),
        ((-3, 0), (6, 4)),
        ((-4, 1, 2, -2), (1, 2, 3, 4)),
        ((-4, -1, 2, 0, 0), (1, 2, 3, 4)),
        ((5, 5), None),
    ],
)
def test_reshape_codes(target: tuple[int, ...], expected: tuple[int, ...] | None) -> None:
    a = nd.ones((2, 3, 4))
    if expected is None:
        with pytest.raises(ShapeError):
            a.reshape(target)
        return
    assert a.reshape(target).shape == expected
    assert a.reshape(*target).shape == expected
    assert a.reshape(shape=target).shape == expected


def test_codes_can_be_read_from_the_right() -> None:
    assert nd.ones((10, 5, 4)).reshape((-1, 0), reverse=True).shape == (50, 4)
    with pytest.raises(ArgumentError, match="possible"):
        nd.ones((1,)).reshape((1,), revers=True)


def test_copyto() -> None:
    a, b = nd.array([1, 2]), nd.zeros((2,))
    assert a.copyto(b) is b
    assert b.asnumpy().tolist() == [1, 2]
    assert a.copyto(context.cpu(1)).context == context.cpu(1)
    with pytest.raises(ShapeError, match=r"expected shape \(2,\), got \(3,\)"):
        nd.ones((3,)).copyto(b)
    with pytest.warns(RuntimeWarning, match="itself"):
        assert a.copyto(a) is a
    with pytest.raises(TypeError):
        a.copyto("cpu")  # type: ignore[arg-type]


def test_copyto_is_differentiable() -> None:
    x, y = nd.array([3]), nd.zeros((1,))
    x.attach_grad()
    with autograd.record():
        x.copyto(y)
        z = y * 2
    z.backward()
    assert x.grad is not None
    assert x.grad.asnumpy().tolist() == [2]
