# SPDX-License-Identifier: Apache-2.0
"""Two epochs of training from the same parameters end where they ended in MXNet 1.9.1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mx_core import cpu
from mx_io.io import DataBatch, NDArrayIter
from mx_ndarray import nd
from mx_symbol import sym
from mx_train import lr_scheduler
from mx_train.module import Module
from testkit.oracle import ORACLE

DATA = ORACLE / "training"
CASES = json.loads((DATA / "fits.json").read_text())
EXAMPLES, CLASSES, BATCH = 10, 3, 4


def network(convolves: bool) -> Any:
    net = sym.Variable("data")
    if convolves:
        net = sym.Convolution(net, kernel=(3, 3), num_filter=2, no_bias=True, name="conv")
        net = sym.BatchNorm(net, fix_gamma=False, name="norm")
        net = sym.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max")
    net = sym.Activation(sym.FullyConnected(net, num_hidden=4, name="first"), act_type="tanh")
    return sym.SoftmaxOutput(sym.FullyConnected(net, num_hidden=CLASSES, name="second"), name="softmax")


def settings(case: dict[str, Any]) -> dict[str, Any]:
    """Parameters of the optimizer, with the schedule that a case describes."""
    chosen = dict(case["settings"])
    if "lr_scheduler" in chosen:
        name, arguments = chosen["lr_scheduler"]
        chosen["lr_scheduler"] = getattr(lr_scheduler, name)(**arguments)
    return chosen


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_fit(case: dict[str, Any]) -> None:
    rng, shape = np.random.RandomState(case["seed"]), tuple(case["shape"])
    x = rng.uniform(-1, 1, (EXAMPLES, *shape)).astype(np.float32)
    y = rng.randint(0, CLASSES, EXAMPLES).astype(np.float32)
    net = network(len(shape) > 1)
    shapes, _, states = net.infer_shape(data=(BATCH, *shape))
    first = {
        name: nd.array(rng.uniform(-0.5, 0.5, extents))
        for name, extents in zip(net.list_arguments(), shapes, strict=True)
        if name not in ("data", "softmax_label")
    }
    aux = {
        name: nd.full(extents, float(name.endswith("var")))
        for name, extents in zip(net.list_auxiliary_states(), states, strict=True)
    }
    module = Module(net)
    module.fit(
        NDArrayIter(x, y, BATCH), num_epoch=2, optimizer=case["optimizer"], optimizer_params=settings(case),
        arg_params=first, aux_params=aux, kvstore=case["kvstore"], eval_metric="ce",
    )  # fmt: skip
    arguments, moved = module.get_params()
    with np.load(DATA / "fits.npz") as recorded:
        for name, value in {**arguments, **moved}.items():
            np.testing.assert_allclose(
                value.asnumpy(), recorded[f"{case['id']}/{name}"], 1e-3, 1e-4, err_msg=name
            )
        full = NDArrayIter(x[: 2 * BATCH], y[: 2 * BATCH], BATCH)
        score = [value for _, value in module.score(full, ["acc", "ce"])]
        np.testing.assert_allclose(score, recorded[f"{case['id']}/score"], 1e-3, 1e-4)


def test_a_training_on_two_devices_goes_on_from_a_checkpoint_of_mxnet() -> None:
    """Its optimizer's states are under names, since the KVStore had the optimizer."""
    rng = np.random.RandomState(5)
    x = rng.uniform(-1, 1, (2 * BATCH, 6)).astype(np.float32)
    y = rng.randint(0, CLASSES, 2 * BATCH).astype(np.float32)
    module = Module.load(str(DATA / "two_devices"), 1, load_optimizer_states=True, context=[cpu(0), cpu(1)])
    module.fit(
        NDArrayIter(x, y, BATCH), begin_epoch=1, num_epoch=2, optimizer="sgd", kvstore="local",
        optimizer_params={"learning_rate": 0.1, "momentum": 0.9},
    )  # fmt: skip
    found, _ = module.get_params()
    for name, value in nd.load(str(DATA / "two_devices-0002.params")).items():
        np.testing.assert_allclose(
            found[name[4:]].asnumpy(), value.asnumpy(), rtol=1e-4, atol=1e-6, err_msg=name
        )


def test_states_of_mxnet_on_one_device_go_on_on_two(tmp_path: Path) -> None:
    """There, they are ignored: the keys of one device are numbers, and names are looked for."""
    rng = np.random.RandomState(5)
    batch = DataBatch([nd.array(rng.uniform(-1, 1, (BATCH, 6)))], [nd.array([0, 1, 2, 0])])
    shapes = {
        "first_weight": (4, 6),
        "first_bias": (4,),
        "second_weight": (CLASSES, 4),
        "second_bias": (CLASSES,),
    }
    start = {name: nd.array(rng.uniform(-1, 1, shape)) for name, shape in shapes.items()}
    found = []
    for contexts in (1, 2):
        module = Module(network(False), context=[cpu(i) for i in range(contexts)])
        module.bind([("data", (BATCH, 6))], [("softmax_label", (BATCH,))])
        module.init_params(arg_params=start)
        module.init_optimizer(optimizer_params={"learning_rate": 0.1, "momentum": 0.9})
        if contexts == 2:
            module.load_optimizer_states(str(tmp_path / "one.states"))
        else:
            module.forward_backward(batch)
            module.update()
            module.save_optimizer_states(str(tmp_path / "one.states"))
            module.set_params(start, {})
        module.forward_backward(batch)
        module.update()
        found.append({name: value.asnumpy() for name, value in module.get_params()[0].items()})
    for name, value in found[0].items():
        np.testing.assert_allclose(found[1][name], value, rtol=1e-5, atol=1e-6, err_msg=name)
