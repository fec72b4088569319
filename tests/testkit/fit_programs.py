# SPDX-License-Identifier: Apache-2.0
"""Programs that train and score with callbacks and monitors, and what is seen of them, for MXNet and for mx.

The recorder runs them in Apache MXNet 1.9.1 under Python 3.8, the test of mx-train with the parts of mx.
"""

import logging
import os
import re

import numpy as np

BATCH, FEATURES, CLASSES = 4, 3, 2


def data(mx, batches, seed, **kwargs):
    """An iterator over random examples."""
    rng = np.random.RandomState(seed)
    x = rng.uniform(-1, 1, (batches * BATCH, FEATURES)).astype(np.float32)
    y = rng.randint(0, CLASSES, batches * BATCH).astype(np.float32)
    return mx.io.NDArrayIter(x, y, BATCH, **kwargs)


def module(mx, short=False, **kwargs):
    """A module, and its parameters; with `short` features are first multiplied by a weight in float16."""
    rng, net = np.random.RandomState(11), mx.sym.Variable("data")
    if short:
        factor = mx.sym.Variable("in_weight", shape=(1, FEATURES))
        net = mx.sym.broadcast_mul(mx.sym.Cast(net, dtype="float16"), factor)
        net = mx.sym.Cast(net, dtype="float32")
    net = mx.sym.FullyConnected(net, num_hidden=CLASSES, name="fc")
    weight, bias = mx.nd.array(rng.uniform(-1, 1, (CLASSES, FEATURES))), mx.nd.zeros((CLASSES,))
    parameters = {"fc_weight": weight, "fc_bias": bias}
    if short:
        parameters["in_weight"] = mx.nd.ones((1, FEATURES))
    return mx.mod.Module(mx.sym.SoftmaxOutput(net, name="softmax"), **kwargs), parameters


def counting(mx):
    """A metric of a program, which knows nothing of global sums."""

    class Counting(mx.metric.EvalMetric):
        def update(self, labels, preds):
            self.sum_metric += float(labels[0].asnumpy().sum())
            self.num_inst += 1

    return Counting("counting")


class Seen:
    """What is seen, in order: lines of the log without times, and what callbacks get."""

    def __init__(self):
        self.events, self.names = [], []

    def log(self, text):
        """A line, without measured times."""
        text = re.sub(r"(Speed: |Time cost=)[\d.]+|(Speed: )inf", r"\1\2*", text)
        self.events.append(["log", re.sub(r'"[^"]*/', '"', text)])

    def batch(self, param):
        """A callback after batches, or after a score."""
        metric = param.eval_metric
        shown = [[name, float(value)] for name, value in metric.get_name_value()]
        found = param.locals
        names = [
            name
            for name in sorted(found)
            if name not in ("callback", "batch_end_params", "name", "val", "toc", "res")
        ]
        names, self.names = ("as before" if names == self.names else names), names
        same = [
            name for name in ("epoch", "nbatch", "eval_metric") if found.get(name) is getattr(param, name)
        ]
        self.events.append(["batch", param.epoch, param.nbatch, shown, names, same])
        batch = found.get("data_batch", found.get("eval_batch"))
        if batch is not None:
            self.events.append(["label", batch.label[0].asnumpy().tolist()])

    def epoch(self, epoch, symbol, arguments, states):
        """A callback after epochs."""
        self.events.append(["epoch", epoch, symbol.list_outputs(), sorted(arguments), sorted(states)])


def fit(mx, seen, **kwargs):
    """A training of two epochs."""
    settings = {"num_epoch": 2, "optimizer_params": {"learning_rate": 0.1}, "eval_metric": "ce", **kwargs}
    train = settings.pop("train_data", None) or data(mx, 5, 1)
    made, parameters = module(mx)
    made.fit(train, arg_params=parameters, **settings)


def reset_all(param):
    """A callback that forgets the metric."""
    param.eval_metric.reset()


def exhausted(mx):
    """An iterator that has given its batches."""
    made = data(mx, 2, 1)
    for _ in made:
        pass
    return made


def scored(mx, seen, settings, metric="ce", before=None):
    """A score, and whether it begins anew."""
    (made, parameters), rows = module(mx), data(mx, 3, 2)
    made.bind([("data", (BATCH, FEATURES))], [("softmax_label", (BATCH,))])
    made.init_params(arg_params=parameters)
    if before is not None:
        before(rows)
    found = made.score(rows, metric, **settings)
    seen.events.append(["score", [[name, float(value)] for name, value in found]])


def resumed(mx, seen, folder, contexts, optimizer, in_store=True):
    """A training that goes on in another module from states in a file, and the file.

    With `multi_precision` among the settings, a weight is in float16. Without `in_store` the store sums gradients only. Then MXNet updates each device by itself.
    """
    path = os.path.join(folder, "saved.states")
    name, settings = optimizer
    store = "local" if in_store else getattr(mx, "sums_only", "local")
    os.environ["MXNET_UPDATE_ON_KVSTORE"] = str(int(in_store))
    short = settings.get("multi_precision", False)
    _, parameters = module(mx, short)
    for epoch in range(2):
        made, _ = module(mx, short, context=[mx.cpu(i) for i in range(contexts)])
        made.bind([("data", (BATCH, FEATURES))], [("softmax_label", (BATCH,))])
        made.init_params(arg_params=parameters)
        made.init_optimizer(kvstore=store, optimizer=name, optimizer_params=settings)
        if epoch:
            made.load_optimizer_states(path)
        for batch in data(mx, 3, epoch):
            made.forward_backward(batch)
            made.update()
        parameters, _ = made.get_params()
        seen.events.append(["weights", [parameters[key].asnumpy().tolist() for key in sorted(parameters)]])
        made.save_optimizer_states(path)
    del os.environ["MXNET_UPDATE_ON_KVSTORE"]
    updater = mx.optimizer.get_updater(mx.optimizer.create(name, **settings))
    with open(path, "rb") as file:
        updater.set_states(file.read())
    shown = {str(key): value for key, value in updater.states.items()}
    arrays = {key: value if isinstance(value, tuple) else (value,) for key, value in shown.items()}
    seen.events.append(
        ["states", [[key, [x.asnumpy().tolist() for x in arrays[key]]] for key in sorted(arrays)]]
    )


def programs(mx, seen, folder):
    """Programs by name."""
    prefix = os.path.join(folder, "saved")
    call = mx.callback

    def speed(frequent, auto_reset, **kwargs):
        told = call.Speedometer(BATCH, frequent, auto_reset)
        return lambda: fit(mx, seen, batch_end_callback=[told, seen.batch], **kwargs)

    momentum = ("sgd", {"learning_rate": 0.1, "momentum": 0.9})
    mixed = ("nag", {"learning_rate": 0.125, "momentum": 0.5, "multi_precision": True})
    squares = ("rmsprop", {"learning_rate": 0.01, "centered": True})

    def watched(monitor, **kwargs):
        return lambda: fit(mx, seen, monitor=monitor, num_epoch=1, **kwargs)

    return {
        "plain": lambda: fit(mx, seen, batch_end_callback=seen.batch, epoch_end_callback=seen.epoch),
        "no callbacks": lambda: fit(mx, seen, eval_metric=["acc", "ce"]),
        "speed": speed(2, True),
        "speed of all": speed(2, False),
        "speed of each": speed(1, True, eval_metric=["acc", "ce"]),
        "speed without global sums": speed(2, True, eval_metric=counting(mx)),
        "metric that is reset": lambda: fit(mx, seen, batch_end_callback=[seen.batch, reset_all]),
        "progress": lambda: fit(mx, seen, batch_end_callback=call.ProgressBar(5, 20)),
        "progress of more": lambda: fit(mx, seen, batch_end_callback=call.ProgressBar(7)),
        "train metric": lambda: fit(mx, seen, batch_end_callback=[call.log_train_metric(2), seen.batch]),
        "train metric reset": lambda: fit(mx, seen, batch_end_callback=[call.log_train_metric(2, True), seen.batch]),
        "validation": lambda: fit(
            mx, seen, eval_data=data(mx, 3, 2), batch_end_callback=seen.batch,
            eval_end_callback=[call.LogValidationMetricsCallback(), seen.batch], eval_batch_end_callback=seen.batch,
        ),
        "validation metric": lambda: fit(
            mx, seen, eval_data=data(mx, 3, 2), validation_metric=["acc", "ce"], epoch_end_callback=seen.epoch,
            eval_end_callback=call.LogValidationMetricsCallback(),
        ),
        "checkpoints": lambda: fit(
            mx, seen, num_epoch=4, epoch_end_callback=[seen.epoch, call.do_checkpoint(prefix, 2)]
        ),
        "checkpoint of each": lambda: fit(mx, seen, epoch_end_callback=call.do_checkpoint(prefix, 0)),
        "later epochs": lambda: fit(mx, seen, begin_epoch=3, num_epoch=5, batch_end_callback=seen.batch),
        "no epochs": lambda: fit(mx, seen, begin_epoch=2, num_epoch=2, epoch_end_callback=seen.epoch),
        "exhausted": lambda: fit(mx, seen, train_data=exhausted(mx), epoch_end_callback=seen.epoch),
        "monitor": watched(mx.mon.Monitor(2, pattern="fc_(output|weight|bias)$|data", sort=True)),
        "monitor of all": watched(mx.mon.Monitor(3, pattern="fc_(weight|bias|output)$", monitor_all=True)),
        "monitor of its own": watched(
            mx.mon.Monitor(4, lambda x: [x.min(), x * 2], pattern="fc_(bias|output)$"), batch_end_callback=seen.batch
        ),
        "score": lambda: scored(mx, seen, {"batch_end_callback": seen.batch, "score_end_callback": seen.batch, "epoch": 7}),
        "score of some": lambda: scored(mx, seen, {"num_batch": 2, "score_end_callback": seen.batch}, ["acc", "ce"]),
        "score of none": lambda: scored(mx, seen, {"num_batch": 0, "score_end_callback": seen.batch}),
        "score goes on": lambda: scored(mx, seen, {"reset": False}, before=next),
        "score begins anew": lambda: scored(mx, seen, {}, before=list),
        "score of the exhausted": lambda: scored(mx, seen, {"reset": False}, before=list),
        "states of one device": lambda: resumed(mx, seen, folder, 1, momentum),
        "states of two devices": lambda: resumed(mx, seen, folder, 2, momentum),
        "states of two devices, rmsprop": lambda: resumed(mx, seen, folder, 2, squares),
        "states in float16": lambda: resumed(mx, seen, folder, 1, mixed),
        "states in float16 of two devices": lambda: resumed(mx, seen, folder, 2, mixed),
        "states apart": lambda: resumed(mx, seen, folder, 2, momentum, in_store=False),
        "states apart, rmsprop": lambda: resumed(mx, seen, folder, 2, squares, in_store=False),
        "states of one device, apart": lambda: resumed(mx, seen, folder, 1, squares, in_store=False),
        "score without global sums": lambda: scored(mx, seen, {}, counting(mx)),
    }  # fmt: skip


def run(mx, name, folder):
    """The events of a program; the last one is the class of the error, if there is one, or the files that it wrote."""
    seen, root = Seen(), logging.getLogger()
    handler = logging.StreamHandler()
    handler.emit = lambda record: seen.log(record.getMessage())
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        programs(mx, seen, folder)[name]()
        seen.events.append(["files", sorted(os.listdir(folder))])
    except Exception as error:
        seen.events.append(["error", type(error).__name__])
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    return seen.events
