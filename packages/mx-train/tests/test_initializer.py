# SPDX-License-Identifier: Apache-2.0
import json
import math

import numpy as np
import pytest

from mx_core.errors import ArgumentError
from mx_ndarray import nd
from mx_symbol import sym
from mx_train import initializer as init
from mx_train import rnn
from mx_train.module import Module


def filled(made: init.Initializer, name: str, shape: tuple[int, ...]) -> np.ndarray:
    array = nd.full(shape, 7.0)
    made(init.InitDesc(name), array)
    return array.asnumpy()


def test_endings_decide() -> None:
    made = init.Xavier()
    assert (filled(made, "fc_bias", (4,)) == 0).all()
    assert (filled(made, "bn_gamma", (4,)) == 1).all()
    assert (filled(made, "bn_beta", (4,)) == 0).all()
    assert (filled(made, "bn_moving_var", (4,)) == 1).all()
    with pytest.raises(ArgumentError, match="ends in none of"):
        filled(made, "mystery", (4,))


def test_quantized_parameters_are_integers_of_eight_bits() -> None:
    weight = filled(init.Zero(), "conv_weight_quantize", (50, 50))
    assert (weight == np.trunc(weight)).all()
    assert (weight.min(), weight.max()) == (-127, 126)
    assert len(np.unique(weight)) == 254
    assert (filled(init.One(), "conv_bias_quantize", (4,)) == 0).all()
    narrow = nd.zeros((3, 4), dtype="int8")
    init.Xavier()(init.InitDesc("fc_weight_quantize"), narrow)
    assert narrow.asnumpy().any()
    ends = [
        filled(init.Xavier(), f"fc_{name}", (1,)).item() for name in ("weight_min", "weight_quantize_max")
    ]
    assert ends == [0.0, 1.0]


def test_a_subclass_may_say_what_each_ending_gets() -> None:
    class Own(init.Initializer):
        def _init_gamma(self, name: str, arr: nd.NDArray) -> None:
            arr[:] = 2.0

        def _init_beta(self, name: str, arr: nd.NDArray) -> None:
            arr[:] = 3.0

        def _init_default(self, name: str, arr: nd.NDArray) -> None:
            arr[:] = 4.0

    found = [filled(Own(), name, (1,)).item() for name in ("a_gamma", "a_beta", "mystery", "a_bias", "a_max")]
    assert found == [2.0, 3.0, 4.0, 0.0, 1.0]


@pytest.mark.parametrize("kind", ["uniform", "gaussian"])
def test_xavier_variance(kind: str) -> None:
    values = filled(init.Xavier(kind, "in", 3), "c_weight", (64, 32, 3, 3))
    scale = math.sqrt(3 / (32 * 9))
    expected = scale / math.sqrt(3) if kind == "uniform" else scale
    assert values.std() == pytest.approx(expected, rel=0.05)
    assert abs(values.mean()) < expected / 20


def test_orthogonal() -> None:
    q = filled(init.Orthogonal(scale=1.0), "r_weight", (4, 9))
    np.testing.assert_allclose(q @ q.T, np.eye(4), atol=1e-5)


def test_attribute_overrides() -> None:
    array = nd.zeros((3,))
    init.Uniform()(init.InitDesc("x", {"__init__": json.dumps(["constant", {"value": 5}])}), array)
    assert (array.asnumpy() == 5).all()


def test_dumps_and_create_round_trip() -> None:
    made = init.create(init.Xavier("gaussian", "out", 2).dumps())
    assert isinstance(made, init.Xavier) and made.magnitude == 2


def test_load_and_mixed() -> None:
    array = nd.zeros((2,))
    init.Load({"arg:a": nd.ones((2,))})("a", array)
    assert (array.asnumpy() == 1).all()
    with pytest.raises(ArgumentError, match="expected shape"):
        init.Load({"a": nd.ones((3,))})("a", array)
    init.Mixed(["b.*", ".*"], [init.One(), init.Zero()])("c_weight", array)
    assert (array.asnumpy() == 0).all()


@pytest.mark.parametrize(("mode", "gates"), [("lstm", 4), ("gru", 3), ("rnn_tanh", 1)])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_parameters_of_fused_recurrent_layers(mode: str, gates: int, bidirectional: bool) -> None:
    directions, inputs, hidden, layers = 1 + bidirectional, 5, 3, 2
    rows = gates * hidden
    weights = directions * rows * (inputs + hidden + directions * hidden + hidden)
    array = nd.zeros((weights + layers * directions * 2 * rows,))
    made = init.FusedRNN(init.Constant(0.25), hidden, layers, mode, bidirectional)
    init.create(made.dumps())(init.InitDesc("rnn_parameters"), array)
    values = array.asnumpy()
    assert (values[:weights] == 0.25).all()
    biases = values[weights:].reshape(-1, gates, hidden)
    assert (biases[:, 1] == 1).all() if mode == "lstm" else (biases == 0).all()  # both, as MXNet has them
    with pytest.raises(ArgumentError, match="no parameters of 2 layers"):
        made(init.InitDesc("rnn_parameters"), nd.zeros((7,)))


def test_each_gate_of_a_fused_layer_is_filled_by_itself() -> None:
    """The names and shapes that MXNet 1.9.1 gives to the initializer, in the order of the array."""
    seen: list[tuple[str, tuple[int, ...]]] = []

    class Noted(init.Initializer):
        def _init_weight(self, name: str, arr: nd.NDArray) -> None:
            seen.append((str(name), arr.shape))
            arr[:] = len(seen)

    array = nd.zeros((4 * 2 * (3 + 2) + 2 * 4 * 2,))
    init.FusedRNN(Noted(), 2, 1, "lstm")(init.InitDesc("rnn_parameters"), array)
    names = [f"l0_{group}_{gate}_weight" for group in ("i2h", "h2h") for gate in "ifco"]
    assert seen == list(zip(names, 4 * [(2, 3)] + 4 * [(2, 2)], strict=True))
    assert array.asnumpy()[:40].tolist() == [i for i in (1, 2, 3, 4) for _ in range(6)] + [
        i for i in (5, 6, 7, 8) for _ in range(4)
    ]


def test_what_is_filled_is_logged_if_asked(caplog: pytest.LogCaptureFixture) -> None:
    made = init.Constant(3).set_verbosity(True)
    with caplog.at_level("INFO"):
        made(init.InitDesc("a_weight"), nd.zeros((2,)))
        made(init.InitDesc("b_weight", {"__init__": init.One().dumps()}), nd.zeros((2,)))
        init.Load({"c": nd.ones((2,))}, verbose=True)("c", nd.zeros((2,)))
    assert [record.getMessage() for record in caplog.records] == [
        "Initialized a_weight as weight: 3.0", 'Initialized b_weight as ["one", {}]: 1.0', "Initialized c by loading",
    ]  # fmt: skip


def test_a_fused_cell_is_filled_by_the_modules_initializer() -> None:
    """Its variable says how many parts there are, and what fills everything else fills them."""
    outputs, _ = rnn.FusedRNNCell(2, 1, "lstm", prefix="l_").unroll(3, sym.Variable("data"), layout="TNC")
    module = Module(outputs, label_names=None)
    module.bind([("data", (3, 4, 5))], for_training=False)
    module.init_params(init.Constant(0.5))
    values = module.get_params()[0]["l_parameters"].asnumpy()
    assert (values[: 4 * 2 * (5 + 2)] == 0.5).all()


def test_a_name_does_not_decide_over_the_initializer_that_is_called() -> None:
    array = nd.zeros((2,))
    init.Constant(2)(init.InitDesc("a_weight", {}, init.Constant(3)), array)
    assert array.asnumpy().tolist() == [2, 2]


def test_constants_of_arrays_are_equal_and_go_through_json() -> None:
    made = init.Constant(nd.array([1, 2]))
    again = init.create(made.dumps())
    assert again == made == init.Constant(np.array([1.0, 2.0])) != init.Constant(1)
    assert filled(again, "a_weight", (3, 2)).tolist() == [[1, 2]] * 3


def test_patterns_that_are_no_weights_of_an_upsampling_are_shown() -> None:
    with pytest.raises(ArgumentError, match=r"\[Bilinear\] 'a_weight': expected 4 axes, got shape \(2, 2\)"):
        filled(init.Bilinear(), "a_weight", (2, 2))
    with pytest.raises(ArgumentError, match=r"'stn_loc_bias': expected shape \(6,\), got \(5,\)"):
        init.Uniform()("stn_loc_bias", nd.zeros((5,)))
