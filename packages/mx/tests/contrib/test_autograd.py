# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import pytest

import mx
from mx.contrib import autograd
from mx_core.errors import ArgumentError


def product(x: mx.NDArray, y: mx.NDArray) -> mx.NDArray:
    return x * y + x


def arrays() -> tuple[mx.NDArray, mx.NDArray]:
    return mx.nd.array([1, 2]), mx.nd.array([3, 4])


@pytest.mark.parametrize(
    ("argnum", "expected"),
    [(None, [[4, 5], [1, 2]]), (0, [[4, 5]]), (1, [[1, 2]]), ([1, 0], [[1, 2], [4, 5]])],
)
def test_gradients_and_value(argnum: int | Sequence[int] | None, expected: list[list[float]]) -> None:
    gradients, value = autograd.grad_and_loss(product, argnum)(*arrays())
    assert [each.asnumpy().tolist() for each in gradients] == expected
    assert value.asnumpy().tolist() == [4, 10]
    alone = autograd.grad(product, argnum)(*arrays())
    assert [each.asnumpy().tolist() for each in alone] == expected


def test_several_outputs_are_summed() -> None:
    gradients, outputs = autograd.grad_and_loss(lambda x: [x * x, x])(mx.nd.array([1, 2]))
    assert gradients[0].asnumpy().tolist() == [3, 5]
    assert len(outputs) == 2


def test_arguments_that_are_no_arrays_are_refused() -> None:
    with pytest.raises(ArgumentError, match="argument 1: expected an NDArray, got 3"):
        autograd.grad(product)(mx.nd.ones(2), 3)


def state() -> tuple[bool, bool]:
    return mx.autograd.is_recording(), mx.autograd.is_training()


def test_sections_switch_recording_and_training() -> None:
    with autograd.train_section():
        assert state() == (True, True)
        with autograd.test_section():
            assert state() == (False, False)
        assert state() == (True, True)
    assert state() == (False, False)
    assert autograd.set_is_training(True) is False
    assert state() == (True, True)
    assert autograd.set_is_training(False) is True
    assert state() == (False, False)


def test_gradients_are_written_to_marked_arrays() -> None:
    x, gradient = mx.nd.array([1, 2]), mx.nd.zeros(2)
    autograd.mark_variables([x], [gradient])
    with autograd.train_section():
        y = x * x
    autograd.backward([y], [mx.nd.array([1, 10])])
    assert gradient.asnumpy().tolist() == [2, 40]
    with autograd.train_section():
        y = x * x
    assert autograd.compute_gradient([y]) is None
    assert gradient.asnumpy().tolist() == [2, 4]


@pytest.mark.parametrize("name", ["nd", "ndarray", "sym", "symbol"])
def test_former_names_of_operators(name: str) -> None:
    found = getattr(mx.contrib, name)
    assert found is (mx.nd if name.startswith("nd") else mx.sym).contrib
    assert __import__(f"mx.contrib.{name}", fromlist=["contrib"]) is found
