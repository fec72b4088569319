# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gc
import threading
import time
from typing import Any

import numpy as np
import pytest

from mx_core import context, kernels, operators
from mx_core.errors import ArgumentError, DTypeError, MXNetError, ShapeError
from mx_ndarray import NDArray, _core, autograd, invocation, nd, prepare_call
from mx_ndarray.invocation import as_context, bind


def signatures(name: str) -> int:
    return _core.cached_signatures(operators.get(name))


def test_a_signature_is_prepared_once() -> None:
    a = nd.ones((2, 3))
    before = signatures("test_reversed")
    for _ in range(5):
        nd.test_reversed(a)
    assert signatures("test_reversed") == before + 1
    nd.test_reversed(nd.ones((3, 2)))
    nd.test_reversed(nd.ones((2, 3), dtype="int32"))
    assert signatures("test_reversed") == before + 3


def test_a_new_shape_infers_no_types_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    nd.zeros((2, 3)), nd.full((2,), 1.5), nd.ones((2,), dtype="int32"), nd.test_reversed(nd.empty((2, 3)))
    inferred: list[str] = []

    def infer_types(op: Any, *rest: Any) -> Any:
        inferred.append(op.name)
        return found(op, *rest)

    found = invocation.infer_types
    monkeypatch.setattr(invocation, "infer_types", infer_types)
    for n in range(301, 320):
        nd.zeros((n, 2)), nd.full((n,), 1.5), nd.ones((n,), dtype="int32"), nd.test_reversed(nd.empty((n,)))
    assert inferred == []
    assert nd.ones((321,), dtype="int8").dtype == np.int8  # another type is inferred
    assert inferred in ([], ["_ones"])


def test_run_time_scalars_prepare_nothing_anew() -> None:
    a = nd.array([1, 2])
    before = signatures("test_scaled")
    for factor in (1.0, 2.0, 3.5):
        np.testing.assert_array_equal(nd.test_scaled(a, factor=factor).asnumpy(), np.array([1, 2]) * factor)
    assert signatures("test_scaled") == before + 1


def test_the_mode_matters_only_to_operators_that_ask() -> None:
    a = nd.ones((2,))
    scaled, mode = signatures("test_scaled"), signatures("test_mode")
    with autograd.train_mode():
        nd.test_scaled(a), nd.test_mode(a)
    nd.test_scaled(a), nd.test_mode(a)
    assert (signatures("test_scaled"), signatures("test_mode")) == (scaled + 1, mode + 2)


def test_the_cache_is_bounded() -> None:
    for n in range(1, 4200):
        nd.test_reversed(nd.empty((n,)))
    assert 1 <= signatures("test_reversed") <= 4096


def test_equal_values_of_other_types_are_other_parameters() -> None:
    a = nd.array([[1, 2], [3, 4]])
    assert a.sum(axis=1).shape == (2,)
    with pytest.raises(ArgumentError):
        a.sum(axis=1.5)
    assert a.sum(axis=(0, 1)).shape == (1,)
    axes = [0]
    assert a.sum(axis=axes).shape == (2,)
    axes.append(1)
    assert a.sum(axis=axes).shape == (1,)


def test_an_input_that_is_left_out_leaves_no_gap() -> None:
    data, label, length = nd.ones((3, 1, 4)), nd.array([[1, 2]]), nd.array([1])
    named = nd.CTCLoss(data, label, label_lengths=length, use_label_lengths=True)
    assert nd.CTCLoss(data, label, length, use_label_lengths=True).asscalar() == named.asscalar()
    with pytest.raises(ArgumentError, match="'label_lengths' is not given"):
        nd.CTCLoss(data, label, data_lengths=length, use_label_lengths=True)


def test_auxiliary_states_are_written() -> None:
    state = nd.zeros((2,))
    first = nd.test_counter(nd.array([1, 2]), state)
    second = nd.test_counter(data=nd.array([1, 2]), state=state)
    assert first.asnumpy().tolist() == [0, 0]
    assert second.asnumpy().tolist() == [1, 2]
    assert state.asnumpy().tolist() == [2, 4]


def test_out_is_returned_and_written() -> None:
    out = nd.zeros((2,))
    assert nd.test_scaled(nd.array([1, 2]), factor=3, out=out) is out
    assert out.asnumpy().tolist() == [3, 6]
    with pytest.raises(ShapeError):
        nd.test_scaled(nd.array([1, 2]), out=nd.zeros((3,)))
    with pytest.raises(DTypeError):
        nd.test_scaled(nd.array([1, 2]), out=nd.zeros((2,), dtype="int32"))
    with pytest.raises(ArgumentError, match="expected 1 arrays, got 2"):
        nd.test_reversed(nd.array([1, 2]), out=[out, out])


@pytest.mark.timeout(60)
def test_a_list_of_targets_may_change_while_the_call_waits(open_gate: threading.Event) -> None:
    """The call waits without the interpreter's lock for a target whose shape is not known yet."""
    out = [nd.test_positive(nd.test_gated(nd.ones((1000, 100))))]
    results: list[Any] = []
    waiting = threading.Thread(
        target=lambda: results.append(nd.test_scaled(nd.ones((100_000,)), factor=3, out=out))
    )
    waiting.start()
    time.sleep(0.3)
    out.clear()
    others = [nd.zeros((100_000,)) for _ in range(20)]  # where the target was, if that is gone
    open_gate.set()
    waiting.join()
    assert results == [[]] and not any(other.asnumpy().any() for other in others)


def test_hidden_outputs_are_not_returned() -> None:
    assert isinstance(nd.test_square2(nd.ones((2,))), NDArray)


def test_arguments_that_do_not_fit_are_named() -> None:
    x = nd.ones((2, 3))
    with pytest.raises(ArgumentError, match=r"test_scaled.*'foo'.*factor"):
        nd.test_scaled(x, foo=1)
    with pytest.raises(ArgumentError, match="'data' is not given"):
        nd.test_scaled()
    with pytest.raises(ArgumentError, match="cannot find input 'dta'"):
        nd.test_scaled(x, dta=x)
    with pytest.raises(TypeError, match="multiple values"):
        nd.test_scaled(x, data=x)
    with pytest.raises(TypeError, match="expected an NDArray, got list"):
        nd.test_scaled([1, 2])
    with pytest.raises(TypeError, match="at most"):
        nd.test_reversed(*[x] * 9)
    with pytest.raises(ArgumentError, match="num_hidden"):
        nd.FullyConnected(x, x)
    assert nd.test_scaled(x, name="ignored").shape == (2, 3)


def test_a_symbol_among_the_inputs_is_told_of_hybrid_forward() -> None:
    class Symbol:
        pass

    with pytest.raises(
        TypeError, match=r"^\[relu\] data: expected an NDArray, got Symbol; .*, F, .*the one of F$"
    ):
        nd.relu(Symbol())
    with pytest.raises(TypeError, match=r"got list; convert with nd.array\(...\)$"):
        nd.relu([1.0])


def test_optional_inputs() -> None:
    x, w = nd.ones((2, 3)), nd.ones((4, 3))
    y = nd.FullyConnected(x, w, None, num_hidden=4, no_bias=True)
    assert y.asnumpy().tolist() == [[3] * 4] * 2
    with pytest.raises(ArgumentError, match="bias"):
        nd.FullyConnected(x, w, num_hidden=4)


def test_variadic_operators_count_their_inputs() -> None:
    a = nd.ones((1, 2))
    assert nd.concat(a, a, a, dim=0).shape == (3, 2)
    assert nd.add_n(a, a, a).asnumpy().tolist() == [[3, 3]]


def test_many_inputs() -> None:
    arrays = [nd.full((2,), float(i)) for i in range(40)]
    assert nd.add_n(*arrays).asnumpy().tolist() == [780, 780]


def test_operators_without_inputs_take_a_context() -> None:
    assert nd.zeros((2,), ctx=context.cpu(1)).context == context.cpu(1)
    with context.cpu(2):
        assert nd.zeros((2,)).context == context.cpu(2)
    assert as_context("cpu(3)") == context.cpu(3)
    with pytest.raises(ArgumentError):
        as_context("cpu(x)")


def test_contexts_of_the_host_mix() -> None:
    assert (nd.ones((1,), ctx=context.cpu(0)) + nd.ones((1,), ctx=context.cpu(1))).asscalar() == 2


def test_bind_numbers_the_arguments() -> None:
    x = nd.ones((2,))
    found = bind(operators.get("test_scaled"), (x,), {"factor": 2.0, "out": x})
    assert (found.inputs, found.out, found.runtime) == ((0,), 2, (-1, 0, -1))


def test_prepare_call_gives_a_capsule() -> None:
    spec = kernels.TensorSpec((2,), 0)
    op = operators.get("test_scaled")
    call = prepare_call(op, op.Param.parse({}), [spec], [spec], context.cpu(), False)
    assert '"mx.call.v1"' in repr(call)


def compute_reversed_with(monkeypatch: pytest.MonkeyPatch, function: Any) -> None:
    """Has `test_reversed`, and no other operator, computed by a function: preparations are remembered."""
    prepare = kernels.prepare
    prepared = kernels.Prepared("x", "x", function=function)
    monkeypatch.setattr(
        kernels,
        "prepare",
        lambda op, *rest: prepared if op.name == "test_reversed" else prepare(op, *rest),
    )


def test_kernels_that_return_nonsense_fail_with_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    for n, (result, text) in enumerate([
        (None, "expected a sequence of 1"),
        ((np.ones(7),), r"returned shape \(7,\), expected \(\d,\)"),
        ((1, 2), "expected a sequence of 1"),
    ]):  # fmt: skip
        with monkeypatch.context() as patch:
            compute_reversed_with(patch, lambda ctx, inputs, result=result: result)
            y = nd.test_reversed(nd.ones((n + 2,)))
            with pytest.raises(MXNetError, match=rf"\[test_reversed\].*{text}"):
                y.asnumpy()
        np.testing.assert_array_equal(nd.ones((n + 2,)).asnumpy(), np.ones(n + 2))
    _core.forget_operators()


def test_views_a_kernel_keeps_stay_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = []

    def keep(ctx: Any, inputs: list[Any]) -> Any:
        kept.extend(inputs)
        return (inputs[0] * 2,)

    compute_reversed_with(monkeypatch, keep)
    nd.test_reversed(nd.array([1, 2, 3, 4, 5, 6, 7])).wait_to_read()
    gc.collect()
    assert kept[0].tolist() == [1, 2, 3, 4, 5, 6, 7]
    with pytest.raises(ValueError, match="read-only"):
        kept[0][0] = 1
    _core.forget_operators()
