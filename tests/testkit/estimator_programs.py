# SPDX-License-Identifier: Apache-2.0
"""Programs that train with an Estimator, and what is seen of them, for MXNet and for mx.

The recorder runs them in Apache MXNet 1.9.1 under Python 3.8, the test of mx-gluon with the parts of mx.
"""

import logging
import os
import re
import warnings

import numpy as np

FEATURES, CLASSES = 3, 2
#: what differs from run to run, or what mx does better on purpose (decision 0008)
HIDDEN = [
    (r"total \d+s", "total *s"),
    (r"in [\d.]+s", "in *s"),
    (r"interval: [\d.]+s", "interval: *s"),
    (r"improved from \S+ to", "improved from * to"),
    (r"\[Epoch \d+\] (?=CheckpointHandler: .* did not)", "[Epoch *] "),
]


class Lines(logging.Handler):
    """Lines of a log, without measured times and folders."""

    def __init__(self, events, folder):
        super().__init__()
        self.events, self.folder = events, folder

    def emit(self, record):
        text = record.getMessage().replace(self.folder, "FOLDER")
        for pattern, shown in HIDDEN:
            text = re.sub(pattern, shown, text)
        self.events.append(["log", record.levelname, text])


class Kit:
    """What the programs are made of."""

    def __init__(self, mx, folder):
        self.mx, self.folder, self.events = mx, folder, []
        self.estimators = mx.gluon.contrib.estimator

    def loader(self, batches=3, batch=4, seed=1, real=False):
        """Random examples with classes or numbers."""
        rng = np.random.RandomState(seed)
        x = rng.uniform(-1, 1, (batches * batch, FEATURES)).astype("float32")
        y = rng.randint(0, CLASSES, batches * batch).astype("float32")
        if real:
            y = rng.uniform(-1, 1, (batches * batch, 1)).astype("float32")
        nd, data = self.mx.nd, self.mx.gluon.data
        return data.DataLoader(data.ArrayDataset(nd.array(x), nd.array(y)), batch_size=batch)

    def net(self, units=CLASSES, contexts=None, seed=5):
        """A network with weights by a seed."""
        net = self.mx.gluon.nn.HybridSequential(prefix="net_")
        with net.name_scope():
            net.add(self.mx.gluon.nn.Dense(4, activation="tanh", in_units=FEATURES))
            net.add(self.mx.gluon.nn.Dense(units, in_units=4))
        net.initialize(ctx=contexts or self.mx.cpu())
        rng = np.random.RandomState(seed)
        for _, param in sorted(net.collect_params().items()):
            param.set_data(self.mx.nd.array(rng.uniform(-1, 1, param.shape)))
        return net

    def estimator(self, net=None, loss=None, rate=0.5, optimizer="sgd", **kwargs):
        """An estimator whose log is seen."""
        net = net or self.net()
        loss = loss or self.mx.gluon.loss.SoftmaxCrossEntropyLoss()
        trainer = self.mx.gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": rate})
        made = self.estimators.Estimator(net, loss, trainer=trainer, **kwargs)
        made.logger.handlers[:] = [Lines(self.events, self.folder)]
        return made

    def see(self, what, *values):
        self.events.append([what, *values])

    def files(self, estimator):
        """Files in the folder, and parameters that the network has."""
        self.see("files", sorted(os.listdir(self.folder)))
        self.weights(estimator)

    def weights(self, estimator):
        params = sorted(estimator.net.collect_params().items())
        self.see("weights", [param.data(param.list_ctx()[0]).asnumpy().tolist() for _, param in params])

    def watcher(self, name, stop=None, priority=0):
        """A handler of all events."""
        kit, parts = self, self.estimators
        events = (
            parts.TrainBegin, parts.TrainEnd, parts.EpochBegin, parts.EpochEnd, parts.BatchBegin, parts.BatchEnd
        )  # fmt: skip

        class Watcher(*events):
            def __init__(self):
                self.priority, self.batches = priority, 0

            def train_begin(self, estimator, *args, **kwargs):
                kit.see(name, "train_begin", sorted(kwargs))

            def train_end(self, estimator, *args, **kwargs):
                kit.see(name, "train_end", sorted(kwargs))

            def epoch_begin(self, estimator, *args, **kwargs):
                kit.see(name, "epoch_begin", sorted(kwargs))

            def batch_begin(self, estimator, *args, **kwargs):
                kit.see(name, "batch_begin", sorted(kwargs), len(kwargs["batch"]))

            def batch_end(self, estimator, *args, **kwargs):
                self.batches += 1
                losses = [each.asnumpy().tolist() for each in kwargs["loss"]]
                shapes = [[list(each.shape) for each in kwargs[key]] for key in ("pred", "label")]
                shown = [[metric.name, str(round(metric.get()[1], 3))] for metric in estimator.train_metrics]
                kit.see(name, "batch_end", sorted(kwargs), losses, shapes, shown)
                return stop == ("batch", self.batches)

            def epoch_end(self, estimator, *args, **kwargs):
                kit.see(name, "epoch_end", sorted(kwargs))
                return stop == ("epoch", self.batches)

        return Watcher()


def defaults(kit):
    made = kit.estimator()
    made.fit(kit.loader(), epochs=2)
    kit.weights(made)
    made.fit(kit.loader(seed=2), epochs=1)
    kit.weights(made)


def validation(kit):
    metric = kit.mx.metric
    made = kit.estimator(
        kit.net(1),
        kit.mx.gluon.loss.L2Loss(),
        train_metrics=[metric.MAE(), metric.MSE()],
        val_metrics=metric.RMSE(),
    )
    made.fit(kit.loader(real=True), kit.loader(2, seed=9, real=True), epochs=2)
    kit.see("names", [m.name for m in made.train_metrics], [m.name for m in made.val_metrics])
    made.evaluate(kit.loader(1, seed=10, real=True))


def copied_metrics(kit):
    made = kit.estimator(
        train_metrics=kit.mx.metric.CompositeEvalMetric([kit.mx.metric.Accuracy(), kit.mx.metric.F1()])
    )
    made.fit(kit.loader(), kit.loader(2, seed=9), epochs=2)
    kit.see("names", [m.name for m in made.train_metrics], [m.name for m in made.val_metrics])


def batches(kit):
    made = kit.estimator()
    handler = kit.estimators.LoggingHandler(log_interval=2, metrics=made.train_metrics)
    made.fit(kit.loader(), kit.loader(1, seed=9), batches=5, event_handlers=handler)
    kit.weights(made)


def events(kit):
    made = kit.estimator()
    early, late = kit.watcher("early", priority=-5000), kit.watcher("late", ("batch", 5))
    made.fit(kit.loader(), kit.loader(1, seed=9), epochs=4, event_handlers=[late, early])


def epoch_stop(kit):
    made = kit.estimator()
    made.fit(kit.loader(1), epochs=4, event_handlers=[kit.watcher("w", ("epoch", 2))])


def contexts(kit):
    several = [kit.mx.cpu(0), kit.mx.cpu(1)]
    made = kit.estimator(kit.net(contexts=several), context=several)
    made.fit(kit.loader(), kit.loader(1, seed=9), epochs=2, event_handlers=kit.watcher("w"))
    kit.weights(made)


def other_validation(kit):
    class Squared(kit.estimators.BatchProcessor):
        def fit_batch(self, estimator, train_batch, batch_axis=0):
            kit.see("fit_batch", batch_axis, list(train_batch[0].shape))
            return super().fit_batch(estimator, train_batch, batch_axis)

        def evaluate_batch(self, estimator, val_batch, batch_axis=0):
            kit.see("evaluate_batch", batch_axis, list(val_batch[0].shape))
            return super().evaluate_batch(estimator, val_batch, batch_axis)

    made = kit.estimator(
        kit.net(1), kit.mx.gluon.loss.L2Loss(), val_net=kit.net(1, seed=6), val_loss=kit.mx.gluon.loss.L1Loss(),
        batch_processor=Squared(),
    )  # fmt: skip
    data = kit.loader(2, seed=9, real=True)
    handler = kit.estimators.ValidationHandler(
        data, made.evaluate, epoch_period=None, batch_period=2, event_handlers=kit.watcher("v")
    )
    made.fit(kit.loader(real=True), epochs=2, event_handlers=[handler])


def checkpoints(kit):
    made = kit.estimator()
    handler = kit.estimators.CheckpointHandler(
        kit.folder, "net", made.train_metrics[1], verbose=1, save_best=True, mode="min", max_checkpoints=2
    )
    made.fit(kit.loader(), epochs=4, event_handlers=handler)
    kit.files(made)
    kit.see("saved", handler.saved_checkpoints, float(handler.best))
    made.net.load_parameters(os.path.join(kit.folder, "net-epoch2batch9.params"))
    kit.files(made)


def best(kit):
    made = kit.estimator(rate=4.0)
    handler = kit.estimators.CheckpointHandler(
        kit.folder, monitor=made.train_metrics[0], verbose=1, save_best=True, mode="max", epoch_period=2
    )
    made.fit(kit.loader(), epochs=6, event_handlers=handler)
    kit.see("best", float(handler.best))
    made.net.load_parameters(os.path.join(kit.folder, "model-best.params"))
    kit.files(made)


def checkpoints_of_batches(kit):
    made = kit.estimator()
    made.net.hybridize()
    handler = kit.estimators.CheckpointHandler(kit.folder, verbose=1, epoch_period=None, batch_period=2)
    made.fit(kit.loader(), batches=7, event_handlers=handler)
    kit.files(made)


def resumed(kit):
    def handler():
        return kit.estimators.CheckpointHandler(kit.folder, verbose=1, resume_from_checkpoint=True)

    first = kit.estimator(optimizer="adam", rate=0.05)
    first.fit(kit.loader(), epochs=2, event_handlers=handler())
    kit.files(first)
    second = kit.estimator(kit.net(seed=77), optimizer="adam", rate=0.05)
    second.fit(kit.loader(), epochs=5, event_handlers=handler())
    kit.files(second)
    refused(kit, lambda: kit.estimator().fit(kit.loader(), epochs=5, event_handlers=handler()))
    refused(kit, lambda: kit.estimator().fit(kit.loader(), batches=50, event_handlers=handler()))


def resumed_batches(kit):
    def handler():
        return kit.estimators.CheckpointHandler(
            kit.folder, verbose=1, epoch_period=None, batch_period=2, resume_from_checkpoint=True
        )

    first = kit.estimator(optimizer="adam", rate=0.05)
    first.fit(kit.loader(), batches=4, event_handlers=handler())
    kit.files(first)
    second = kit.estimator(kit.net(seed=77), optimizer="adam", rate=0.05)
    second.fit(kit.loader(), batches=9, event_handlers=handler())
    kit.files(second)
    refused(kit, lambda: kit.estimator().fit(kit.loader(), batches=3, event_handlers=handler()))


def early_stopping(kit):
    for kwargs in (
        {"mode": "min", "patience": 2},
        {"mode": "max"},
        {"mode": "min", "min_delta": 0.05, "patience": 1},
    ):
        made = kit.estimator(rate=0.05)
        handler = kit.estimators.EarlyStoppingHandler(made.train_metrics[1], **kwargs)
        made.fit(kit.loader(), epochs=6, event_handlers=handler)
        kit.see("stopped", handler.stopped_epoch, handler.current_epoch, handler.wait, float(handler.best))
    made = kit.estimator(rate=0.05)
    handler = kit.estimators.EarlyStoppingHandler(made.val_metrics[0], mode="max", baseline=0.95, patience=2)
    made.fit(kit.loader(), kit.loader(2, seed=9), epochs=6, event_handlers=handler)
    kit.see("stopped", handler.stopped_epoch, handler.current_epoch, handler.wait, float(handler.best))


def refused(kit, action):
    """What kind of error an action raises."""
    try:
        action()
    except Exception as error:
        kinds = [kind for kind in (AssertionError, ValueError) if isinstance(error, kind)]
        kit.see("error", kinds[0].__name__ if kinds else type(error).__name__)
    else:
        kit.see("no error")


def errors(kit):
    made, parts, metric = kit.estimator(), kit.estimators, kit.mx.metric
    fit = made.fit
    for action in (
        lambda: kit.estimator(loss="l2"),
        lambda: kit.estimator(val_loss="l2"),
        lambda: kit.estimator(train_metrics=["acc"]),
        lambda: kit.estimator(context="cpu"),
        lambda: kit.estimator(context=["cpu"]),
        lambda: kit.estimator(batch_processor=3),
        lambda: parts.Estimator(kit.net(), made.loss, trainer="sgd"),
        lambda: fit([1, 2], epochs=1),
        lambda: made.evaluate([1, 2]),
        lambda: fit(kit.loader()),
        lambda: fit(kit.loader(), epochs=1, batches=1),
        lambda: fit(kit.loader(), epochs=1, event_handlers=[3]),
        lambda: fit(kit.loader(), epochs=1, event_handlers=[parts.MetricHandler(metric.MAE())]),
        lambda: made.evaluate(kit.loader(), event_handlers=[parts.MetricHandler(made.train_metrics)]),
        lambda: parts.LoggingHandler("batch"),
        lambda: parts.CheckpointHandler(kit.folder, save_best=True),
        lambda: parts.EarlyStoppingHandler("acc"),
        lambda: parts.EarlyStoppingHandler(metric.CompositeEvalMetric()),
    ):
        refused(kit, action)


PROGRAMS = {
    each.__name__: each
    for each in (
        defaults, validation, copied_metrics, batches, events, epoch_stop, contexts, other_validation, checkpoints,
        best, checkpoints_of_batches, resumed, resumed_batches, early_stopping, errors,
    )
}  # fmt: skip


def run(mx, name, folder):
    """What is seen of a program."""
    kit = Kit(mx, folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        PROGRAMS[name](kit)
    return kit.events
