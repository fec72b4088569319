# SPDX-License-Identifier: Apache-2.0
"""Updates of many weights at once: the same weights as one by one, by one operator."""

import numpy as np
import pytest

import mx_train.optimizer as opt
from mx_ndarray import nd
from mx_train.lr_scheduler import PolyScheduler
from mx_train.optimizer import together

SHAPES = [(3, 4), (5,), (2, 1, 3), (1,)]


def values(count, seed, dtype="float32"):
    rng = np.random.default_rng(seed)
    shapes = (SHAPES * count)[:count]
    return [nd.array(rng.normal(size=shape), dtype=dtype) for shape in shapes]


def trained(make, at_once, count=4, dtype="float32", steps=3):
    """Weights after some steps, of lists or one by one."""
    updater = opt.get_updater(make())
    weights = values(count, 0, dtype)
    for step in range(steps):
        grads = values(count, step + 1, dtype)
        if at_once:
            updater(list(range(count)), grads, weights)
        else:
            for each in zip(range(count), grads, weights, strict=True):
                updater(*each)
    return [weight.asnumpy() for weight in weights]


COMMON = {
    "wd": 0.01,
    "rescale_grad": 0.5,
    "param_idx2name": {0: "a_weight", 1: "a_bias", 2: "b_weight", 3: "b_gamma"},
}
OPTIMIZERS = [
    (opt.SGD, {}), (opt.SGD, {"momentum": 0.9}), (opt.SGD, {"momentum": 0.9, "clip_gradient": 0.3}),
    (opt.Adam, {}), (opt.Adam, {"clip_gradient": 0.3, "beta1": 0.8}), (opt.NAG, {"momentum": 0.9}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "options"), OPTIMIZERS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_lists_give_what_one_by_one_gives(kind, options, dtype):
    def make():
        made = kind(
            multi_precision=dtype == "float16", lr_scheduler=PolyScheduler(10, 0.1), **COMMON, **options
        )
        made.set_lr_mult({"a_weight": 2.0, 1: 0.5})
        return made

    for one, other in zip(trained(make, True, dtype=dtype), trained(make, False, dtype=dtype), strict=True):
        # Rates lie in arrays of float32 here, in numbers there.
        np.testing.assert_allclose(one, other, rtol=1e-12 if dtype == "float64" else 1e-6, atol=1e-7)


@pytest.mark.parametrize("count", [together._MOST - 1, together._MOST + 1, 2 * together._MOST + 1])
def test_more_weights_than_one_operator_takes(count):
    results = [trained(lambda: opt.Adam(wd=0.1), way, count=count, steps=2) for way in (True, False)]
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("optimizer", "name"),
    [(opt.SGD(), "sgd_update"), (opt.SGD(0.9), "sgd_mom_update"), (opt.Adam(), "adam_update")],
)
def test_no_operator_of_one_weight_is_used(monkeypatch, optimizer, name):
    monkeypatch.setattr(nd, name, None)
    updater = opt.get_updater(optimizer)
    weights, grads = values(4, 0), values(4, 1)
    updater(list(range(4)), grads, weights)
    for weight, before in zip(weights, values(4, 0), strict=True):
        assert (weight.asnumpy() != before.asnumpy()).all()


def test_an_optimizer_of_the_user_is_asked_for_each_weight():
    asked = []

    class Mine(opt.SGD):
        def update(self, index, weight, grad, state):
            asked.append(index)
            super().update(index, weight, grad, state)

    results = [trained(lambda: Mine(momentum=0.9), way) for way in (True, False)]
    assert asked == [0, 1, 2, 3] * 6
    for one, other in zip(*results, strict=True):
        assert one.tolist() == other.tolist()


def test_types_may_be_mixed():
    updater = opt.get_updater(opt.SGD(learning_rate=1.0))
    weights = [nd.ones((2,)), nd.ones((2,), dtype="float64"), nd.ones((2,))]
    updater([0, 1, 2], [nd.ones((2,), dtype=weight.dtype) for weight in weights], weights)
    assert [weight.asnumpy().tolist() for weight in weights] == [[0, 0]] * 3


def test_no_weights_are_no_step():
    optimizer = opt.Adam()
    opt.get_updater(optimizer)([], [], [])
    assert optimizer.num_update == 0


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(
    "make",
    [
        lambda: opt.Adam(learning_rate=0.1),
        lambda: opt.SGD(learning_rate=0.1, momentum=0.9),
        lambda: opt.LARS(learning_rate=0.1),
        lambda: opt.LBSGD(batch_scale=2),
    ],
)
def test_a_step_without_memory_is_taken_again(make, at_once, monkeypatch):
    """It does not count: Adam would correct its means for a step more, a schedule would be ahead."""
    found = []
    for fails in (False, True):
        updater = opt.get_updater(make())
        weights = values(4, 0)
        for step in range(3):
            grads = values(4, step + 1)
            work = [(list(range(4)), grads, weights)] if at_once else list(zip(range(4), grads, weights))
            if fails and step:
                for each in work:
                    with monkeypatch.context() as patched:
                        refuse(patched, type(updater.optimizer))
                        with pytest.raises(MemoryError):
                            updater(*each)
            for each in work:
                updater(*each)
        found.append((updater.optimizer.num_update, updater.optimizer._index_update_count, weights))
    assert found[0][:2] == found[1][:2] == (3, dict.fromkeys(range(4), 3))
    for one, other in zip(found[0][2], found[1][2], strict=True):
        np.testing.assert_array_equal(one.asnumpy(), other.asnumpy())


def refuse(patched, kind):
    """There is no memory for rates and decays, or for what follows them."""

    def common(self, index, of=kind._common):
        of(self, index)
        raise MemoryError

    def rates_and_decays(optimizer, indices, of=together.rates_and_decays):
        of(optimizer, indices)
        raise MemoryError

    patched.setattr(kind, "_common", common)
    patched.setattr(together, "rates_and_decays", rates_and_decays)
