# SPDX-License-Identifier: Apache-2.0
import warnings
from typing import Any

import pytest

import mx
from mx_core.errors import ArgumentError


class Shape:
    def __init__(self, size: int = 1) -> None:
        self.size = size


register = mx.registry.get_register_func(Shape, "shape")
alias = mx.registry.get_alias_func(Shape, "shape")
create = mx.registry.get_create_func(Shape, "shape")


@alias("box", "Quad")
@register
class Square(Shape): ...


def test_classes_are_found_by_their_names_and_further_ones() -> None:
    assert mx.registry.get_registry(Shape) == dict.fromkeys(("square", "box", "quad"), Square)
    mx.registry.get_registry(Shape).clear()
    assert len(mx.registry.get_registry(Shape)) == 3
    assert mx.registry.get_registry(dict) == {}


@pytest.mark.parametrize(
    ("args", "kwargs", "size"),
    [
        (("SQUARE",), {"size": 3}, 3), (("quad", 4), {}, 4), (('["square", {"size": 9}]',), {}, 9),
        (('{"shape": "box", "size": 8}',), {}, 8), (({"shape": "box", "size": 7},), {}, 7),
        ((), {"shape": "square", "size": 6}, 6), ((Square(5),), {}, 5), ((), {"shape": Square(4)}, 4),
    ],
)  # fmt: skip
def test_instances_are_made_from_names_json_and_mappings(args: Any, kwargs: Any, size: int) -> None:
    made = create(*args, **kwargs)
    assert type(made) is Square
    assert made.size == size


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("sqare",), "no shape 'sqare' is registered; known: box, quad, square; did you mean 'square'"),
        ((Square(), 3), "no arguments beside an instance"), ((3,), "expected a name or an instance of Shape, got 3"),
        (('["square", {}]', 3), "no arguments beside JSON"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused(args: Any, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        create(*args)


def test_other_classes_are_refused_and_replaced_ones_warned_of() -> None:
    with pytest.raises(ArgumentError, match="expected a subclass of Shape to be a shape, got <class 'int'>"):
        register(int)
    register(type("Circle", (Shape,), {}))
    other = type("Circle", (Shape,), {})
    with pytest.warns(UserWarning, match="shape 'circle' was .*Circle and is .*Circle now"):
        register(other)
    assert type(create("circle")) is other
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        register(other)
