# SPDX-License-Identifier: Apache-2.0
"""States that are damaged, or of another optimizer, are refused with a message that says so."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mx_kvstore
from mx_core.errors import ArgumentError, FileFormatError
from mx_ndarray import NDArray, nd
from mx_symbol import sym
from mx_train import optimizer
from mx_train.module import Module
from mx_train.optimizer.states import dump_states, read_states


def updated(
    made: optimizer.Optimizer, shape: tuple[int, ...] = (2, 3), dtype: str = "float32"
) -> optimizer.Updater:
    updater = optimizer.get_updater(made)
    updater(0, nd.ones(shape, dtype=dtype), nd.ones(shape, dtype=dtype))
    return updater


def unnamed(states: bytes) -> bytes:
    """The states as MXNet writes them: without the optimizer's name."""
    return dump_states({key: state for key, state in read_states(states).items() if key != "__optimizer__"})


def module(store: Any) -> Module:
    made = Module(
        sym.SoftmaxOutput(sym.FullyConnected(sym.var("data"), num_hidden=2, name="fc"), name="softmax")
    )
    made.bind([("data", (4, 3))], [("softmax_label", (4,))])
    made.init_params()
    made.init_optimizer(kvstore=store, optimizer="adam")
    return made


def readers(tmp_path: Path) -> list[Callable[[str], None]]:
    store = mx_kvstore.create("local")
    store.set_optimizer(optimizer.Adam())
    return [
        module(None).load_optimizer_states, module(mx_kvstore.create("device")).load_optimizer_states,
        store.load_optimizer_states,
    ]  # fmt: skip


def test_what_is_no_store_keeps_no_states() -> None:
    with pytest.raises(ArgumentError, match="kvstore: expected the name of a store, .* got 5"):
        module(5)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: b"hello", "byte 0 of 5: not a valid pickle: value 101 is used before it is kept"),
        (lambda data: b"", "byte 0 of 0: not a valid pickle: "),
        (lambda data: data[:-1], r"byte (\d+) of \1: not a valid pickle: "),
        (lambda data: data[:100], r"byte \d\d of 100: not a valid pickle: expected .* but only"),
        (lambda data: data[:40] + b"\xff" + data[41:], r"byte \d+ of \d+: not a valid pickle"),
        (lambda data: b"\x80\x04e.", "byte 2 of 4: not a valid pickle: expected a mark on the stack"),
        (lambda data: b"\x80\x04q\x00.", "byte 2 of 5: not a valid pickle: the stack is empty"),
        (lambda data: b"\x80\x04N\x8f.", "byte 3: EMPTY_SET is not allowed"),
        (lambda data: pickle.dumps([1, 2]), "expected a dict, got list"),
    ],
)
def test_damage_names_the_file_and_the_byte(
    tmp_path: Path, damage: Callable[[bytes], bytes], said: str
) -> None:
    path = tmp_path / "net.states"
    path.write_bytes(damage(updated(optimizer.Adam()).get_states()))
    for read in readers(tmp_path):
        with pytest.raises(FileFormatError, match=rf"net\.states: optimizer states: {said}") as caught:
            read(str(path))
        assert str(caught.value).startswith(str(path))


def test_states_of_another_optimizer_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.states"
    saved = updated(optimizer.Nadam())
    for dump in (False, True):
        path.write_bytes(saved.get_states(dump_optimizer=dump))
        for read in readers(tmp_path):
            with pytest.raises(
                ArgumentError, match=r"net\.states: .* of the optimizer Nadam, .* used is Adam"
            ):
                read(str(path))
    earlier = pickle.dumps(({}, optimizer.SGD()))
    with pytest.raises(
        ArgumentError, match="they are of the optimizer SGD, and the one used is Adam: use SGD"
    ):
        optimizer.get_updater(optimizer.Adam()).set_states(earlier)


class Faster(optimizer.SGD):
    """A program's own optimizer; it is not registered."""


def test_an_optimizer_and_one_that_extends_it_share_states() -> None:
    makers = [optimizer.SGD, optimizer.ccSGD, optimizer.LBSGD, Faster]
    states = [updated(make(momentum=0.9)).get_states() for make in makers]
    for make in makers:
        optimizer.get_updater(make(momentum=0.9)).set_states(states[0])
    for state in states:
        optimizer.get_updater(optimizer.SGD(momentum=0.9)).set_states(state)
    with pytest.raises(
        ArgumentError,
        match=r"of the optimizer Faster \(which extends SGD\), and the one used is Adam: use Faster",
    ):
        optimizer.get_updater(optimizer.Adam()).set_states(states[3])


def own(name: str, base: type[optimizer.Optimizer] = optimizer.Optimizer, **more: Any) -> Any:
    """An optimizer of another package than mx."""

    def create_state(self: Any, index: Any, weight: NDArray) -> tuple[NDArray, NDArray]:
        return nd.ones(weight.shape), nd.zeros(weight.shape)

    def update(self: Any, index: Any, weight: NDArray, grad: NDArray, state: Any) -> None:
        self._update_count(index)

    methods = {"create_state": create_state, "update": update} if base is optimizer.Optimizer else {}
    return type(name, (base,), methods | {"__module__": "acme_optimizers.fast"} | more)


@pytest.mark.parametrize("dump", [False, True])
@pytest.mark.parametrize("base", [optimizer.Optimizer, optimizer.Adam, own("_Common")])
def test_states_of_a_programs_optimizer_are_read_by_it(
    base: type[optimizer.Optimizer], dump: bool, caplog: pytest.LogCaptureFixture
) -> None:
    mine = own("Mine", base)
    states = updated(mine()).get_states(dump_optimizer=dump)
    updater = optimizer.get_updater(mine())
    updater.set_states(states)
    assert updater.optimizer.num_update == 1
    updater(0, nd.ones((2, 3)), nd.ones((2, 3)))
    optimizer.get_updater(own("Extended", mine)()).set_states(states)
    optimizer.get_updater(base()).set_states(states)
    assert not caplog.records
    faster = optimizer.get_updater(mine(learning_rate=0.5))
    faster.set_states(states)
    assert [message.rpartition(": ")[2] for message in caplog.messages] == (
        [f"lr {mine().lr} in the file, 0.5 here"] if dump else []
    )


@pytest.mark.parametrize("dump", [False, True])
@pytest.mark.parametrize(
    ("saved", "used", "said"),
    [
        (
            own("LAMB"),
            optimizer.Adam,
            r"LAMB \(which extends Optimizer\), and the one used is Adam: use LAMB",
        ),
        (
            optimizer.Adam,
            own("LAMB"),
            r"Adam, and the one used is LAMB \(which extends Optimizer\): use Adam",
        ),
        (
            own("Adam"),
            optimizer.Adam,
            r"Adam \(which extends Optimizer\), and the one used is Adam: use Adam",
        ),
        (
            optimizer.Adam,
            own("Adam"),
            r"Adam, and the one used is Adam \(which extends Optimizer\): use Adam",
        ),
        (
            own("LAMB"),
            own("Mine", optimizer.Adam),
            r"LAMB .*, and the one used is Mine \(which extends Adam\)",
        ),
        (own("Mine", optimizer.Adam), own("LAMB"), r"Mine \(which extends Adam\), and the one used is LAMB "),
    ],
)
def test_states_are_refused_where_only_one_optimizer_is_of_mx(
    saved: Any, used: Any, said: str, dump: bool
) -> None:
    states = updated(saved()).get_states(dump_optimizer=dump)
    with pytest.raises(ArgumentError, match=f"they are of the optimizer {said}"):
        optimizer.get_updater(used()).set_states(states)


@pytest.mark.parametrize("base", [optimizer.Optimizer, optimizer.Adam])
def test_a_program_may_rename_its_optimizer(base: Any, caplog: pytest.LogCaptureFixture) -> None:
    kept = updated(own("Faster", base)())
    updater = optimizer.get_updater(own("Quicker", base)())
    updater.set_states(kept.get_states())
    assert updater.optimizer.num_update == 1
    for state, expected in zip(updater.states[0], kept.states[0], strict=True):
        np.testing.assert_array_equal(state.asnumpy(), expected.asnumpy())
    assert caplog.messages == [
        f"The states that were saved by the optimizer Faster (which extends {base.__name__}) are used by "
        f"Quicker (which extends {base.__name__})."
    ]


@pytest.mark.parametrize("base", [optimizer.Optimizer, optimizer.Adam])
def test_states_of_another_optimizer_that_is_registered_are_refused(
    base: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    faster, other = own("Faster", base), own("Other", base)
    states = updated(faster()).get_states()
    monkeypatch.setitem(optimizer.Optimizer.opt_registry._own, "faster", faster)
    with pytest.raises(
        ArgumentError,
        match=rf"of the optimizer Faster \(which extends {base.__name__}\), and the one used is Other .*: use Faster",
    ):
        optimizer.get_updater(other()).set_states(states)
    monkeypatch.setitem(optimizer.Optimizer.opt_registry._own, "faster", other)  # renamed; the name is kept
    optimizer.get_updater(other()).set_states(states)


@pytest.mark.parametrize("dumped_by", ["mxnet.optimizer.optimizer", "mx_train.optimizer.adaptive"])
def test_a_dump_is_of_the_class_of_mx_whatever_a_program_registered(
    dumped_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(optimizer.Optimizer.opt_registry._own, "adam", own("Adam"))
    dump = b"\x80\x02}c" + dumped_by.encode() + b"\nAdam\n)\x81}b\x86."
    optimizer.get_updater(optimizer.Adam()).set_states(dump)
    with pytest.raises(ArgumentError, match="of the optimizer Adam, and the one used is SGD: use Adam"):
        optimizer.get_updater(optimizer.SGD()).set_states(dump)
    with pytest.raises(
        ArgumentError, match=r"of the optimizer Adam, .* used is Adam \(which extends Optimizer\)"
    ):
        optimizer.get_updater(own("Adam")()).set_states(dump)


def test_names_as_files_had_them_once() -> None:
    def named(*names: str) -> bytes:
        return dump_states({0: (nd.ones((2, 3)), nd.zeros((2, 3))), "__optimizer__": list(names)})

    for names, kinds in (
        (("Adam",), (optimizer.Adam, own("Mine", optimizer.Adam))),
        (("Mine", "Adam"), (optimizer.Adam, own("Mine", optimizer.Adam), own("Yours", optimizer.Adam))),
        (("Mine",), (own("Mine"), own("Yours"))),
    ):
        for kind in kinds:
            optimizer.get_updater(kind()).set_states(named(*names))
    for kind, names in (
        (optimizer.Adam, ("Mine",)),
        (own("Mine"), ("Adam",)),
        (optimizer.SGD, ("Mine", "Adam")),
    ):
        with pytest.raises(ArgumentError, match=f"of the optimizer {names[0]}.*, and the one used is"):
            optimizer.get_updater(kind()).set_states(named(*names))


@pytest.mark.parametrize("names", ["Adam", [], [1], {"Adam": 1}])
def test_the_names_are_names(names: object) -> None:
    with pytest.raises(FileFormatError, match="expected the names of an optimizer's classes, got"):
        optimizer.get_updater(optimizer.Adam()).set_states(dump_states({"__optimizer__": names}))


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("rmsprop", {}, r"\(array of shape \(2, 3\),\)"),
        ("adagrad", {}, r"array of shape \(2, 3\)"),
        ("sgd", {"momentum": 0.9}, r"array of shape \(2, 3\)"),
        ("sgd", {}, "None"),
        ("ftml", {}, r"\(array of shape \(2, 3\), array of shape \(2, 3\), array of shape \(2, 3\)\)"),
    ],
)
def test_a_state_of_another_form_is_told_at_the_first_update(
    name: str, settings: dict[str, Any], expected: str
) -> None:
    states = unnamed(updated(optimizer.Adam()).get_states())
    updater = optimizer.get_updater(optimizer.create(name, param_idx2name={0: "fc_weight"}, **settings))
    updater.set_states(states)
    got = r"\(array of shape \(2, 3\), array of shape \(2, 3\)\)"
    for _ in range(2):
        with pytest.raises(
            ArgumentError,
            match=rf"state of 'fc_weight': expected {expected}, as create_state gives, got {got}: .* another optimizer",
        ):
            updater(0, nd.ones((2, 3)), nd.ones((2, 3)))


def test_a_state_of_another_shape_is_told() -> None:
    updater = optimizer.get_updater(optimizer.Adam())
    updater.set_states(updated(optimizer.Adam()).get_states())
    with pytest.raises(
        ArgumentError, match=r"\[Adam\] state of 0: expected .*\(3, 2\).*, got .*\(2, 3\).*network"
    ):
        updater(0, nd.ones((3, 2)), nd.ones((3, 2)))


@pytest.mark.parametrize("name", ["sgd", "nag", "signum", "dcasgd", "lars", "lbsgd"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_momentum_may_be_left_out_and_taken_up(name: str, momentum: float) -> None:
    states = updated(optimizer.create(name, momentum=momentum)).get_states()
    other = optimizer.get_updater(optimizer.create(name, momentum=0.9 - momentum))
    other.set_states(states)
    other(0, nd.ones((2, 3)), nd.ones((2, 3)))


@pytest.mark.parametrize("name", ["sgd", "nag", "adam", "lars", "rmsprop"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_copies_of_short_weights_fit(name: str, dtype: str) -> None:
    def weights() -> tuple[NDArray, NDArray]:
        return nd.ones((2, 3), dtype=dtype), nd.ones((2, 3), dtype=dtype)

    first, second = (optimizer.get_updater(optimizer.create(name, multi_precision=True)) for _ in range(2))
    first(0, *weights())
    for states in (first.get_states(), unnamed(first.get_states())):
        second.set_states(states)
        second(0, *weights())
    plain = optimizer.get_updater(optimizer.create(name))
    plain.set_states(first.get_states())
    if name in ("adam", "rmsprop"):
        with pytest.raises(ArgumentError, match="other settings"):
            plain(0, *weights())


class Growing(optimizer.Optimizer):
    """A state that grows: no fixed form."""

    def create_state(self, index: Any, weight: NDArray) -> list[Any]:
        return []

    def update(self, index: Any, weight: NDArray, grad: NDArray, state: list[Any]) -> None:
        state.append(float(np.sum(grad.asnumpy())))


def test_a_state_of_no_fixed_form_is_left_to_its_optimizer() -> None:
    second = optimizer.get_updater(Growing())
    second.set_states(updated(Growing()).get_states())
    second(0, nd.ones((2, 3)), nd.ones((2, 3)))
    assert second.states[0] == [6.0, 6.0]
