# SPDX-License-Identifier: Apache-2.0
from typing import Any

import numpy as np
import pytest

from mx_core import dtypes
from mx_core.errors import DTypeError, OperatorError, ShapeError
from mx_core.operator import Operator, infer_shapes, infer_types
from mx_core.operator.infer import infer_outputs, tensors_of
from mx_core.operator.knowledge import Shapes
from mx_core.plugins import Entry


def test_equal_shapes_flow_both_ways(ops: Any) -> None:
    op = ops["test_quadratic"]
    assert infer_shapes(op, op.Param(), [(2, -1)], [(-1, 3)]) == (((2, 3),), ((2, 3),))
    assert infer_shapes(op, op.Param(), [None]) == ((None,), (None,))


def test_reverse_rule(ops: Any) -> None:
    op = ops["test_halves"]
    assert infer_shapes(op, op.Param(), [(4, -1)], [(-1, 3)]) == (((4, 6),), ((4, 3),))


def test_contradiction_has_both_shapes(ops: Any) -> None:
    op = ops["test_quadratic"]
    with pytest.raises(ShapeError, match=r"test_quadratic 'q0'.*\(3,\).*\(2,\)|\(2,\).*\(3,\)"):
        infer_shapes(op, op.Param(), [(2,)], [(3,)], node="q0")


def test_zero_is_a_size(ops: Any) -> None:
    op = ops["test_product"]
    assert infer_shapes(op, op.Param(), [(0, 1), (1, 5)])[1] == ((0, 5),)


def test_broadcast_of_partial_shapes(ops: Any) -> None:
    op = ops["test_product"]
    assert infer_shapes(op, op.Param(), [(-1, 3), (2, 1)])[1] == ((2, 3),)
    assert infer_shapes(op, op.Param(), [(-1, 3), (1, 1)])[1] == ((-1, 3),)
    with pytest.raises(ShapeError, match=r"\[2,3\] \[4\]"):
        infer_shapes(op, op.Param(), [(2, 3), (4,)])


def test_a_rule_may_state_a_shape_as_an_array() -> None:
    shapes = Shapes("[test]", ("data", "output"), ((2, 3), None))
    for _ in range(2):
        shapes.assign("output", np.array([4, 6]))
        shapes.assign("data", [2, 3])
    assert shapes.values(("data", "output")) == ((2, 3), (4, 6))
    with pytest.raises(ShapeError, match=r"expected shape \(4, 5\), got \(4, 6\)"):
        shapes.assign("output", np.array([4, 5]))


def test_what_is_known_of_shapes() -> None:
    shapes = Shapes("[test]", ["data", "weight", "output"], [(2, 3), (-1, 3), None])
    assert (shapes.where, shapes.changed) == ("[test]", False)
    assert (shapes.get("data"), shapes.get("weight"), shapes.get("output")) == ((2, 3), (-1, 3), None)
    assert (shapes.known("data"), shapes.known("weight"), shapes.known("output")) == ((2, 3), None, None)
    assert shapes.ranked("weight") == (-1, 3)
    with pytest.raises(AssertionError, match="output: its rank is not known"):
        shapes.ranked("output")
    assert shapes.complete(["data"]) == ((2, 3),)
    assert shapes.complete(["data", "weight"]) is None and shapes.complete(("output",)) is None
    shapes.assign("data", (2, 3))
    shapes.assign("data", None)
    assert shapes.changed is False
    shapes.assign("weight", (5, -1))
    assert shapes.changed is True and shapes.get("weight") == (5, 3)
    shapes.changed = False
    shapes.assign("output", (0, 7))
    assert shapes.changed is True and shapes.values(("output", "data")) == ((0, 7), (2, 3))
    with pytest.raises(ValueError, match="each of 2 names, got 1"):
        Shapes("[test]", ("data", "output"), (None,))


def test_shapes_that_are_equal() -> None:
    shapes = Shapes("[test]", ("a", "b", "c"), (None, (2, 3), None))
    shapes.unify(("a", "b", "c"))
    assert shapes.values(("a", "b", "c")) == ((2, 3),) * 3
    shapes = Shapes("[test]", ("a", "b", "c"), (None, None, None))
    shapes.unify(["a", "b", "c"])
    assert shapes.changed is False
    shapes = Shapes("[test]", ("a", "b", "c"), ((2, -1), None, (-1, 3)))
    shapes.unify(["a", "b", "c"])
    assert shapes.complete(("a", "b", "c")) == ((2, 3),) * 3
    shapes = Shapes("[test]", ("a", "b"), ((2, 4), (2, 3)))
    with pytest.raises(ShapeError, match=r"b: expected shape \(2, 4\), got \(2, 3\)"):
        shapes.unify(("a", "b"))


def test_comparing_extents_may_change_what_is_known() -> None:
    """Extents of a class of the user's run Python where they are compared."""

    class Extent:
        def __eq__(self, other: object) -> bool:
            shapes._table["data"] = None
            return True

        def __hash__(self) -> int:
            return 0

    shapes = Shapes("[test]", ("data", "output"), ((Extent(), 3), (2, 3)))
    shapes.assign("data", (2, 3))
    assert shapes.get("data") is None
    shapes._table["data"] = (Extent(), 3)  # type: ignore[assignment]
    shapes.unify(("output", "data"))
    assert shapes.get("data") == (2, 3)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((3, -2), r"negative dimension in \(3, -2\)"),
        ((1,) * 33, "at most 32 dimensions, got 33"),
        ((2**40, 2**40), r"shape \(1099511627776, 1099511627776\) has more than 2\^63 elements"),
        ((2**64,), r"has more than 2\^63 elements"),
        ((2**62, 2, -1), r"has more than 2\^63 elements"),
    ],
)
def test_impossible_shapes(shape: tuple[int, ...], message: str) -> None:
    shapes = Shapes("[test]", ("data",), (None,))
    with pytest.raises(ShapeError, match=message):
        shapes.assign("data", shape)
    assert shapes.values(("data",)) == (None,)


@pytest.mark.parametrize("ask", ["get", "known", "ranked"])
def test_a_rule_asks_for_a_tensor_that_there_is_not(ask: str) -> None:
    shapes = Shapes("[test]", ("data", "output"), (None, None))
    calls = (
        lambda: getattr(shapes, ask)("dato"), lambda: shapes.assign("dato", (1,)), lambda: shapes.unify(("data", "dato")),
        lambda: shapes.values(("dato",)),
    )  # fmt: skip
    for call in calls:
        with pytest.raises(OperatorError, match="infer_shape asks for 'dato', .* did you mean 'data'"):
            call()


def test_number_of_inputs(ops: Any) -> None:
    with pytest.raises(ShapeError, match="expected 2 inputs"):
        infer_shapes(ops["test_product"], ops["test_product"].Param(), [(1,)])


def test_types(ops: Any) -> None:
    op = ops["test_product"]
    assert infer_types(op, op.Param(), [None, 1]) == ((1, 1), (1,))
    with pytest.raises(DTypeError, match="float64.*float32|float32.*float64"):
        infer_types(op, op.Param(), [0, 1])


class Chosen(Operator):
    """Elements by index, and how many there are."""

    name = "test_chosen"
    arguments = ("data", "like", "indices")
    results = ("output", "count")
    differentiable = False
    inplace_pairs = ((0, 0),)
    fixed_types = {"count": "int64"}
    free_types = {"like": "data", "indices": "int32"}


FLOAT32, FLOAT64, INT32, INT64 = (dtypes.code(name) for name in ("float32", "float64", "int32", "int64"))


def test_types_that_are_fixed_and_free() -> None:
    op, p = Chosen(), Chosen.Param()
    assert infer_types(op, p, [FLOAT32, None, None]) == ((FLOAT32, FLOAT32, INT32), (FLOAT32, INT64))
    assert infer_types(op, p, [FLOAT32, INT64, FLOAT64])[0] == (FLOAT32, INT64, FLOAT64)
    assert infer_types(op, p, [None, None, None]) == ((None, None, INT32), (None, INT64))
    assert infer_types(op, p, [None, None, None], [FLOAT64, None])[0] == (FLOAT64, FLOAT64, INT32)
    with pytest.raises(DTypeError, match="count: expected int64, got float32"):
        infer_types(op, p, [FLOAT32, None, None], [None, FLOAT32])


def test_a_free_type_may_stay_unknown() -> None:
    class Like(Chosen):
        name = "test_chosen_like"
        free_types = {"like": None, "indices": None}

    assert infer_types(Like(), Like.Param(), [FLOAT32, None, None])[0] == (FLOAT32, None, None)


def test_pairs_that_share_memory() -> None:
    assert Chosen().inplace(Chosen.Param()) == ((0, 0),)


@pytest.mark.parametrize("rule", ["infer_shape", "infer_type"])
@pytest.mark.parametrize(
    "ask",
    [
        lambda state: state.get("outptu"),
        lambda state: state.known("outptu"),
        lambda state: state.assign("outptu", (2,) if state.rule == "infer_shape" else 0),
        lambda state: state.unify(["data", "outptu"]),
    ],
)
def test_a_tensor_that_an_operator_does_not_have_is_told(rule: str, ask: Any) -> None:
    members = {"name": "test_typo", "differentiable": False, rule: lambda self, p, state: ask(state)}
    op = type("Typo", (Operator,), members)()
    infer = infer_shapes if rule == "infer_shape" else infer_types
    with pytest.raises(
        OperatorError,
        match=rf"^\[test_typo\] {rule} asks for 'outptu', the tensors are data, output; did you mean 'output'\?$",
    ):
        infer(op, op.Param(), [None])


class Counted(Operator):
    """Counts how often its rule runs."""

    name = "test_counted"
    differentiable = False
    runs = 0

    def infer_shape(self, p: Any, s: Any) -> None:
        type(self).runs += 1
        s.assign("output", s.get("data"))


def outputs_of(op: Any, shapes: list[tuple[int, ...]]) -> Any:
    return infer_outputs(op, op.Param(), tensors_of(op, op.Param(), len(shapes)), shapes)


def test_a_rule_runs_once_where_it_says_all(monkeypatch: pytest.MonkeyPatch) -> None:
    op = Counted()
    assert outputs_of(op, [(2, 3)]) == ((2, 3),)
    assert Counted.runs == 1
    assert infer_shapes(op, op.Param(), [(2, 3)])[1] == ((2, 3),)
    assert Counted.runs == 3


def test_equal_shapes_need_no_rule(ops: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    op = ops["test_product"]
    assert outputs_of(op, [(2, 1), (1, 3)]) == ((2, 3),)
    with pytest.raises(ShapeError, match=r"\[2,3\] \[4\]"):
        outputs_of(op, [(2, 3), (4,)])
    monkeypatch.setattr("mx_core.operator.simple.broadcast_shapes", None)
    assert outputs_of(op, [(2, 3), (2, 3)]) == ((2, 3),)


class TakesBack(Operator):
    """A rule that contradicts what it has said."""

    name = "test_takes_back"
    differentiable = False

    def infer_shape(self, p: Any, s: Any) -> None:
        if s.known("output") is not None:
            s.assign("data", (7,))
        s.assign("output", s.get("data"))


def test_a_strangers_rule_sees_its_own_results(monkeypatch: pytest.MonkeyPatch) -> None:
    op = TakesBack()
    entry: Any = Entry("operators", "test_takes_back", op, "a stranger", "")
    monkeypatch.setattr(op, "brought_by", entry)
    with pytest.raises(ShapeError, match="expected shape"):
        outputs_of(op, [(2, 3)])


def test_outputs_that_depend_on_values_stay_unknown() -> None:
    class Found(Operator):
        """As many elements as there are."""

        name = "test_found"
        differentiable = False
        dynamic_output = True

        def infer_shape(self, p: Any, s: Any) -> None:
            s.assign("output", (-1, 2))

    assert outputs_of(Found(), [(2, 3)]) == ((-1, 2),)
