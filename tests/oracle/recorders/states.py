# SPDX-License-Identifier: Apache-2.0
"""Records steps of optimizers, and their states in files, in Apache MXNet 1.9.1. Runs under Python 3.8.

python states.py                    runs the cases of `states.json` anew
python states.py --check            compares with what is recorded, and reads `written_by_mx.states`; changes nothing
python states.py --resume FOLDER    goes on from states that mx wrote, `FOLDER/ID.states`, and compares

A case has parameters on one device with an updater, or on two with a KVStore that runs the optimizer. It makes three
steps, saves, and makes two more: at once, with a new optimizer that loaded the states, and with one that loaded the
states with the optimizer.
"""

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
SHAPES = {"fc_weight": (2, 3), "fc_bias": (3,), "bn_gamma": (2,)}
BEFORE, AFTER = 3, 2
WRITTEN = {
    0: None,
    1: ["float16", [[1.0, -0.5], [0.0, 65504.0]]],
    "fc_weight": [["float32", [0.25, 2.0]], ["float32", [1.0, 3.0]]],
    "fc_bias": [[["float32", [[1.0] * 3]], None], ["float32", [[-2.0] * 3]]],
}


def first_weights(case):
    """The weights before the first step, by name."""
    rng = np.random.RandomState(7)
    drawn = {name: rng.uniform(-2, 2, shape) for name, shape in SHAPES.items()}
    return {name: mx.nd.array(drawn[name], dtype=case["dtype"]) for name in case["parameters"]}


def gradients(case, step):
    """The gradients of a step by name, one for each device."""
    rng = np.random.RandomState(100 + step)
    drawn = {name: rng.uniform(-3, 3, (2,) + shape) for name, shape in SHAPES.items()}
    found = {name: [mx.nd.array(g, dtype=case["dtype"]) for g in drawn[name]] for name in case["parameters"]}
    return {name: both[: case["devices"]] for name, both in found.items()}


class Training(object):
    """Weights with the updater or store of a case."""

    def __init__(self, case, weights):
        settings = dict(case["settings"])
        if "lr_scheduler" in settings:
            name, arguments = settings["lr_scheduler"]
            settings["lr_scheduler"] = getattr(mx.lr_scheduler, name)(**arguments)
        mults = settings.pop("mults", {})
        optimizer = mx.optimizer.create(
            case["optimizer"], param_idx2name=dict(enumerate(case["parameters"])),
            multi_precision=case.get("mixed", case["dtype"] == "float16"), **settings
        )  # fmt: skip
        if mults:
            optimizer.set_lr_mult(mults)
            optimizer.set_wd_mult(mults)
        self.case, self.weights, self.store, self.updater = case, weights, None, None
        if case["devices"] == 1:
            self.updater = mx.optimizer.get_updater(optimizer)
            return
        self.store = mx.kv.create("local")
        for name, weight in weights.items():
            self.store.init(name, weight)
        self.store.set_optimizer(optimizer)

    def step(self, number):
        """One step of all weights, and the weights after it in a row."""
        for i, (name, grads) in enumerate(gradients(self.case, number).items()):
            if self.store is None:
                self.updater(i, grads[0], self.weights[name])
            else:
                self.store.push(name, grads)
                self.store.pull(name, out=self.weights[name])
        return np.concatenate([w.asnumpy().astype(np.float32).ravel() for w in self.weights.values()])

    def copies(self):
        """Of the weights."""
        return {name: weight.copy() for name, weight in self.weights.items()}

    def save(self, dump_optimizer=False):
        """The bytes of the states."""
        if self.store is None:
            return self.updater.get_states(dump_optimizer)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "saved")
            self.store.save_optimizer_states(path, dump_optimizer)
            with open(path, "rb") as file:
                return file.read()

    def load(self, states):
        """Takes the bytes of states."""
        if self.store is None:
            self.updater.set_states(states)
            return
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "saved")
            with open(path, "wb") as file:
                file.write(states)
            self.store.load_optimizer_states(path)


def run(case):
    """What a case gives: weights after each step, files of states, weights of trainings that went on from them."""
    training = Training(case, first_weights(case))
    steps = [training.step(number) for number in range(BEFORE)]
    kept, files = training.copies(), {"states": training.save(), "dumped": training.save(True)}
    steps += [training.step(number) for number in range(BEFORE, BEFORE + AFTER)]
    found = {"steps": np.array(steps)}
    for name, states in files.items():
        found[name] = np.frombuffer(states, np.uint8)
        found["after_" + name] = resumed(case, kept, states)
    return found


def resumed(case, weights, states):
    """The weights after each step that follows the saved ones."""
    training = Training(case, {name: weight.copy() for name, weight in weights.items()})
    training.load(states)
    return np.array([training.step(number) for number in range(BEFORE, BEFORE + AFTER)])


def resume(cases, folder):
    """Differences of trainings that go on from files of mx, and from those of MXNet."""
    lines, recorded = [], np.load(os.path.join(DATA, "states.npz"))
    for case in cases:
        training = Training(case, first_weights(case))
        for number in range(BEFORE):
            training.step(number)
        with open(os.path.join(folder, case["id"] + ".states"), "rb") as file:
            found = resumed(case, training.copies(), file.read())
        expected = recorded[case["id"] + "/after_states"]
        tolerance = 4e-3 if case["dtype"] == "float16" else 2e-5
        lines += differences({case["id"]: expected}, {case["id"]: found}, tolerance)
    return lines


def tree(state):
    """A state as nested lists and text."""
    if isinstance(state, mx.nd.NDArray):
        return [str(np.dtype(state.dtype)), state.asnumpy().tolist()]
    return [tree(part) for part in state] if isinstance(state, tuple) else state


def read_ours():
    """Differences of what MXNet reads in `written_by_mx.states` from what was written."""
    updater = mx.optimizer.get_updater(mx.optimizer.SGD())
    with open(os.path.join(DATA, "written_by_mx.states"), "rb") as file:
        updater.set_states(file.read())
    return differences(WRITTEN, {key: tree(state) for key, state in updater.states.items()}, 0)


def main():
    logging.disable(logging.INFO)
    with open(os.path.join(DATA, "states.json")) as file:
        cases = json.load(file)
    if sys.argv[1:2] == ["--resume"]:
        lines = resume(cases, sys.argv[2])
        print("\n".join(lines) or f"{len(cases)} trainings go on from states of mx as from those of MXNet")
        sys.exit(bool(lines))
    found = {case["id"] + "/" + key: value for case in cases for key, value in run(case).items()}
    path = os.path.join(DATA, "states.npz")
    if sys.argv[1:] == ["--check"]:
        numbers = {key: value for key, value in found.items() if value.dtype != np.uint8}
        with np.load(path) as file:
            old = {key: file[key] for key in file if file[key].dtype != np.uint8}
        lines = differences(old, numbers, 1e-3) + read_ours()
        print("\n".join(lines) or f"{len(cases)} trainings: as recorded")
        sys.exit(bool(lines))
    np.savez_compressed(path, **found)


if __name__ == "__main__":
    main()
