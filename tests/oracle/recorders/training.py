# SPDX-License-Identifier: Apache-2.0
"""Records where training ends in Apache MXNet 1.9.1. Runs under Python 3.8; README.md says how.

python training.py             runs the cases of `fits.json`, `optimizers.json` and `schedules.json` anew
python training.py --check     compares with what is recorded, and changes nothing
"""

import contextlib
import io
import json
import logging
import os
import sys
import tempfile

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


def tree(state):
    """A state as nested lists, with the type of each array before its values."""
    if isinstance(state, mx.nd.NDArray):
        return [str(np.dtype(state.dtype)), [float(f"{value:.8g}") for value in state.asnumpy().ravel()]]
    return [tree(part) for part in state] if isinstance(state, (list, tuple)) else state


def mixed_steps(case, recorded):
    """The float16 weight after a step for each gradient, and what the optimizer keeps of it."""
    settings = dict(case["settings"], multi_precision=True)
    made = mx.optimizer.create(case["optimizer"], param_idx2name={0: "w_weight"}, **settings)
    updater, weight = mx.optimizer.get_updater(made), mx.nd.array(recorded["start"], dtype="float16")
    for gradient in recorded["gradients"]:
        updater(0, mx.nd.array(gradient, dtype="float16"), weight)
    return dict(case, weight=weight.asnumpy().ravel().tolist(), state=tree(updater.states[0]))


def two_devices(folder):
    """Checkpoints after each epoch of a training on two devices; their states are under names."""
    rng, shape = np.random.RandomState(5), (6,)
    x = rng.uniform(-1, 1, (2 * BATCH,) + shape).astype(np.float32)
    y = rng.randint(0, CLASSES, 2 * BATCH).astype(np.float32)
    net = network(False)
    shapes, _, _ = net.infer_shape(data=(BATCH,) + shape)
    first = {
        name: mx.nd.array(rng.uniform(-0.5, 0.5, extents))
        for name, extents in zip(net.list_arguments(), shapes)
        if name not in ("data", "softmax_label")
    }
    module = mx.mod.Module(net, context=[mx.cpu(0), mx.cpu(1)])
    saved = mx.callback.module_checkpoint(module, os.path.join(folder, "two_devices"), 1, True)
    module.fit(
        mx.io.NDArrayIter(x, y, BATCH), num_epoch=2, optimizer="sgd", kvstore="local", arg_params=first,
        optimizer_params={"learning_rate": 0.1, "momentum": 0.9}, epoch_end_callback=saved,
    )  # fmt: skip
    return parameters(folder)


def parameters(folder):
    """Those of the checkpoints of `two_devices`."""
    ends = (mx.nd.load(os.path.join(folder, f"two_devices-000{epoch}.params")) for epoch in (1, 2))
    return [{name: value.asnumpy() for name, value in params.items()} for params in ends]


def schedule(case):
    """The rates of a schedule, with its base_lr and the last line of its log after each, and what it has in the end.

    The notice is what making the optimizer prints.
    """
    made = getattr(mx.lr_scheduler, case["name"])(**case["arguments"])
    own = {"learning_rate": case["learning_rate"]} if "learning_rate" in case else {}
    printed, rates, lines, logged = io.StringIO(), [], [], []
    with contextlib.redirect_stdout(printed):
        if own or "optimizer" in case:
            mx.optimizer.create(case.get("optimizer", "sgd"), lr_scheduler=made, **own)
    handler = logging.StreamHandler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logging.getLogger().addHandler(handler)
    for update in case["updates"]:
        del lines[:]
        rates.append([made(update), made.base_lr])
        logged.append(lines[-1] if lines else "")
    logging.getLogger().removeHandler(handler)
    return dict(case, rates=rates, log=logged, notice=printed.getvalue().strip(), attributes=vars(made))


def read(name):
    """What is recorded under a name."""
    with open(os.path.join(DATA, name)) as file:
        return json.load(file)


def write(name, rows, head="", tail=""):
    """Records cases, one on a line."""
    with open(os.path.join(DATA, name), "w") as file:
        file.write("{}[\n{}\n]{}\n".format(head, ",\n".join(json.dumps(row) for row in rows), tail))


def main():
    logging.getLogger().setLevel(logging.INFO)
    check = sys.argv[1:] == ["--check"]
    cases, fits = read("fits.json"), {}
    for case in cases:
        fits.update(fit(case))
    with np.load(os.path.join(DATA, "fits.npz")) as file:
        lines = differences(dict(file), fits, 1e-5)
    recorded = read("optimizers.json")
    made = [dict(case, weight=steps(case, recorded)) for case in recorded["cases"]]
    lines += differences(recorded["cases"], made, 1e-6)
    mixed = [mixed_steps(case, recorded) for case in recorded["mixed"]]
    lines += differences(recorded["mixed"], mixed, 1e-3)
    known = read("schedules.json")
    schedules = [schedule(case) for case in known]
    lines += differences(known, schedules, 1e-12)
    counts = f"{len(cases)} fits, {len(made)} optimizers and {len(schedules)} schedules"
    with tempfile.TemporaryDirectory() as folder:
        lines += differences(parameters(DATA), two_devices(folder), 1e-5)
    print("\n".join(lines) or f"{counts}: as recorded")
    if check:
        sys.exit(bool(lines))
    np.savez_compressed(os.path.join(DATA, "fits.npz"), **fits)
    start, gradients = json.dumps(recorded["start"]), json.dumps(recorded["gradients"])
    head = f'{{\n"start": {start},\n"gradients": {gradients},\n"cases": '
    rows = ",\n".join(json.dumps(case) for case in mixed)
    write("optimizers.json", made, head, f',\n"mixed": [\n{rows}\n]\n}}')
    two_devices(DATA)
    write("schedules.json", schedules)


if __name__ == "__main__":
    main()
