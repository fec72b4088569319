# SPDX-License-Identifier: Apache-2.0
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_core import cpu
from mx_core.errors import ArgumentError, MXNetError, ShapeError
from mx_io import io
from mx_ndarray import nd, random
from mx_symbol import sym
from mx_train import initializer
from mx_train.module import BucketingModule, Module

VOCABULARY, HIDDEN = 7, 6


def unrolled(length: int) -> tuple[Any, tuple[str, ...], tuple[str, ...]]:
    """A recurrent network that says after each token which one it saw first."""
    data, label = sym.Variable("data"), sym.Variable("softmax_label")
    steps = sym.SliceChannel(
        sym.Embedding(data, input_dim=VOCABULARY, output_dim=HIDDEN, name="embed"),
        num_outputs=length, axis=1, squeeze_axis=True,
    )  # fmt: skip
    weights = {key: sym.Variable(f"{key}_weight") for key in ("i2h", "h2h", "out")}
    state, outputs = sym.zeros((0, HIDDEN)), []
    for step in steps:
        i2h = sym.FullyConnected(step, weights["i2h"], num_hidden=HIDDEN, no_bias=True)
        h2h = sym.FullyConnected(state, weights["h2h"], num_hidden=HIDDEN, no_bias=True)
        state = sym.tanh(i2h + h2h)
        outputs.append(sym.expand_dims(state, axis=1))
    flat = sym.reshape(sym.concat(*outputs, dim=1), shape=(-1, HIDDEN))
    scores = sym.FullyConnected(flat, weights["out"], num_hidden=VOCABULARY, no_bias=True)
    return (
        sym.SoftmaxOutput(scores, sym.reshape(label, shape=(-1,)), name="softmax"),
        ("data",),
        ("softmax_label",),
    )


def batch(length: int, seed: int = 0, size: int = 4) -> io.DataBatch:
    tokens = np.random.default_rng(seed).integers(0, VOCABULARY, (size, length)).astype(np.float32)
    labels = np.repeat(tokens[:, :1], length, 1)
    return io.DataBatch(
        [nd.array(tokens)], [nd.array(labels)], bucket_key=length,
        provide_data=[("data", (size, length))], provide_label=[("softmax_label", (size, length))],
    )  # fmt: skip


def made(**settings: Any) -> BucketingModule:
    module = BucketingModule(unrolled, default_bucket_key=8, **settings)
    module.bind([("data", (4, 8))], [("softmax_label", (4, 8))])
    random.seed(3)
    module.init_params(initializer.Xavier())
    module.init_optimizer(optimizer="adam", optimizer_params={"learning_rate": 0.01})
    return module


def test_buckets_train_the_same_parameters_as_one_module_per_length() -> None:
    module = made()
    start, _ = module.get_params()
    module.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 0.5}, force_init=True)
    expected = {name: value.asnumpy() for name, value in start.items()}
    for i, length in enumerate([8, 3, 5, 3, 8]):
        module.forward_backward(batch(length, i))
        module.update()
        alone = Module(unrolled(length)[0])
        alone.bind([("data", (4, length))], [("softmax_label", (4, length))])
        alone.set_params({name: nd.array(value) for name, value in expected.items()}, {})
        alone.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 0.5})
        alone.forward_backward(batch(length, i))
        alone.update()
        expected = {name: value.asnumpy() for name, value in alone.get_params()[0].items()}
        for name, value in module.get_params()[0].items():
            np.testing.assert_allclose(value.asnumpy(), expected[name], rtol=1e-5, atol=1e-6)


def test_buckets_share_arrays_and_memory() -> None:
    module = made()
    for length in (8, 3, 5):
        module.forward_backward(batch(length))
    executors = [each._bound().execs[0] for each in module._buckets.values()]
    for name in ("i2h_weight", "embed_weight"):
        first = executors[0].arg_dict[name]
        first[:] = 0.125
        assert all((e.arg_dict[name].asnumpy() == 0.125).all() for e in executors)
        assert all(e.grad_dict[name] is executors[0].grad_dict[name] for e in executors)
    assert len({id(e._arena) for e in executors}) == 1


def test_one_optimizer_counts_for_all_buckets() -> None:
    module = made()
    for i, length in enumerate([8, 3, 5, 3]):
        module.forward_backward(batch(length, i))
        module.update()
    counts = module._buckets[8]._optimizer._index_update_count  # type: ignore[union-attr]
    assert set(counts.values()) == {4}


@pytest.mark.parametrize("contexts", [1, 2])
def test_training_learns(contexts: int) -> None:
    module = made(context=[cpu(i) for i in range(contexts)])
    module.init_optimizer(optimizer="adam", optimizer_params={"learning_rate": 0.03}, force_init=True)
    losses = []
    for i in range(240):
        b = batch((8, 3, 5)[i % 3], i)
        module.forward_backward(b)
        module.update()
        rows = np.arange(b.label[0].size)
        chosen = module.get_outputs()[0].asnumpy()[rows, b.label[0].asnumpy().astype(int).ravel()]
        losses.append(-np.log(chosen).mean())
    assert np.mean(losses[-15:]) < 0.6 * np.mean(losses[:15])


def test_checkpoint(tmp_path: Path) -> None:
    module = made()
    module.forward_backward(batch(5))
    module.update()
    module.save_checkpoint(str(tmp_path / "m"), 2)
    names = ["m-0002.params", "m-5-symbol.json", "m-8-symbol.json", "m.buckets"]
    assert sorted(p.name for p in tmp_path.iterdir()) == names
    loaded = BucketingModule.load(str(tmp_path / "m"), 2, unrolled, 8)
    loaded.bind([("data", (4, 8))], [("softmax_label", (4, 8))], for_training=False)
    for each in (module, loaded):
        each.forward(batch(5), is_train=False)
    np.testing.assert_array_equal(loaded.get_outputs()[0].asnumpy(), module.get_outputs()[0].asnumpy())


def test_rebinding_keeps_parameters_and_prepare_keeps_the_bucket() -> None:
    module = made()
    before = module.get_params()[0]["out_weight"].asnumpy()
    module.bind([("data", (2, 8))], [("softmax_label", (2, 8))], force_rebind=True)
    np.testing.assert_array_equal(module.get_params()[0]["out_weight"].asnumpy(), before)
    module.prepare(batch(3, size=2))
    assert module.data_shapes[0].shape == (2, 8)


def test_mistakes_are_explained() -> None:
    with pytest.raises(ArgumentError, match="default_bucket_key"):
        BucketingModule(unrolled)
    with pytest.raises(ArgumentError, match="expected \\(symbol, data names, label names\\)"):
        BucketingModule(lambda key: unrolled(key)[0], default_bucket_key=8)
    module = BucketingModule(unrolled, default_bucket_key=8)
    with pytest.raises(MXNetError, match="call bind first"):
        module.forward(batch(8))
    module = made()
    with pytest.raises(ArgumentError, match="bucket 4 is new: its batch needs provide_data"):
        module.forward(io.DataBatch([nd.ones((4, 4))], None, bucket_key=4))

    def other(key: int) -> Any:
        data = sym.FullyConnected(sym.Variable("data"), num_hidden=key, name="fc")
        return sym.SoftmaxOutput(data, name="softmax"), ("data",), ("softmax_label",)

    module = BucketingModule(other, default_bucket_key=8)
    module.bind([("data", (4, 8))], [("softmax_label", (4,))])
    module.init_params()
    with pytest.raises(
        ShapeError, match="fc_weight: expected .* in the shared executor, got float32\\[8, 8\\]"
    ):
        module.switch_bucket(3, [("data", (4, 8))], [("softmax_label", (4,))])
