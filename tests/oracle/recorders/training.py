# SPDX-License-Identifier: Apache-2.0
"""Records where training ends in Apache MXNet 1.9.1. Runs under Python 3.8; README.md says how.

python training.py             runs the cases of `fits.json` and `optimizers.json` anew
python training.py --check     compares with what is recorded, and changes nothing
"""

import json
import os
import sys

os.environ.setdefault("MXNET_SUBGRAPH_BACKEND", "NONE")

import mxnet as mx
import numpy as np
from common import differences

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "training")
EXAMPLES, CLASSES, BATCH = 10, 3, 4


def network(convolves):
    """The network of the fits."""
    net = mx.sym.Variable("data")
    if convolves:
        net = mx.sym.Convolution(net, kernel=(3, 3), num_filter=2, no_bias=True, name="conv")
        net = mx.sym.BatchNorm(net, fix_gamma=False, name="norm")
        net = mx.sym.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max")
    net = mx.sym.Activation(mx.sym.FullyConnected(net, num_hidden=4, name="first"), act_type="tanh")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=CLASSES, name="second"), name="softmax")


def settings(case):
    """Parameters of the optimizer, with the schedule that a case describes."""
    chosen = dict(case["settings"])
    if "lr_scheduler" in chosen:
        name, arguments = chosen["lr_scheduler"]
        chosen["lr_scheduler"] = getattr(mx.lr_scheduler, name)(**arguments)
    return chosen


def fit(case):
    """Parameters, auxiliary states and scores after two epochs."""
    rng, shape = np.random.RandomState(case["seed"]), tuple(case["shape"])
    x = rng.uniform(-1, 1, (EXAMPLES,) + shape).astype(np.float32)
    y = rng.randint(0, CLASSES, EXAMPLES).astype(np.float32)
    net = network(len(shape) > 1)
    shapes, _, states = net.infer_shape(data=(BATCH,) + shape)
    first = {
        name: mx.nd.array(rng.uniform(-0.5, 0.5, extents))
        for name, extents in zip(net.list_arguments(), shapes)
        if name not in ("data", "softmax_label")
    }
    aux = {
        name: mx.nd.full(extents, float(name.endswith("var")))
        for name, extents in zip(net.list_auxiliary_states(), states)
    }
    module = mx.mod.Module(net)
    module.fit(
        mx.io.NDArrayIter(x, y, BATCH), num_epoch=2, optimizer=case["optimizer"], optimizer_params=settings(case),
        arg_params=first, aux_params=aux, kvstore=case["kvstore"], eval_metric="ce",
    )  # fmt: skip
    arguments, moved = module.get_params()
    found = {name: value.asnumpy() for name, value in dict(arguments, **moved).items()}
    full = mx.io.NDArrayIter(x[: 2 * BATCH], y[: 2 * BATCH], BATCH)
    found["score"] = np.array([value for _, value in module.score(full, ["acc", "ce"])])
    return {"{}/{}".format(case["id"], name): value for name, value in found.items()}


def steps(case, recorded):
    """The weight after a step of an optimizer for each gradient."""
    made = mx.optimizer.create(case["optimizer"], param_idx2name={0: "w_weight"}, **case["settings"])
    updater, weight = mx.optimizer.get_updater(made), mx.nd.array(recorded["start"])
    for gradient in recorded["gradients"]:
        updater(0, mx.nd.array(gradient), weight)
    return [float(f"{value:.8g}") for value in weight.asnumpy().ravel()]


def main():
    check = sys.argv[1:] == ["--check"]
    with open(os.path.join(DATA, "fits.json")) as file:
        cases = json.load(file)
    fits = {}
    for case in cases:
        fits.update(fit(case))
    with np.load(os.path.join(DATA, "fits.npz")) as file:
        lines = differences(dict(file), fits, 1e-5)
    path = os.path.join(DATA, "optimizers.json")
    with open(path) as file:
        recorded = json.load(file)
    made = [dict(case, weight=steps(case, recorded)) for case in recorded["cases"]]
    lines += differences(recorded["cases"], made, 1e-6)
    print("\n".join(lines) or f"{len(cases)} fits and {len(made)} optimizers: as recorded")
    if check:
        sys.exit(bool(lines))
    np.savez_compressed(os.path.join(DATA, "fits.npz"), **fits)
    with open(path, "w") as file:
        rows = ",\n".join(json.dumps(case) for case in made)
        start, gradients = json.dumps(recorded["start"]), json.dumps(recorded["gradients"])
        file.write(f'{{\n"start": {start},\n"gradients": {gradients},\n"cases": [\n{rows}\n]\n}}\n')


if __name__ == "__main__":
    main()
