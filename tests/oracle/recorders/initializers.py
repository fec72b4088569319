# SPDX-License-Identifier: Apache-2.0
"""Records what initializers of Apache MXNet 1.9.1 do. Runs under Python 3.8; README.md says how.

python initializers.py             runs the cases of `initializers.json` anew
python initializers.py --check     compares with what is recorded, and changes nothing

A case makes an initializer and fills arrays of 7 with it, by name and shape, each with the attributes of its variable if
there are any; `plain` passes the name as text. Random draws are replaced: a uniform one by its upper bound, a normal one
by its deviation. Of `Orthogonal` the products of rows (or columns) are recorded. Arguments that are initializers, or an
array, stand as {"init": [NAME, ARGUMENTS]} and {"array": VALUES}.
"""

import json
import logging
import os
import sys
import warnings

import mxnet as mx
import numpy as np
from common import differences

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "training", "initializers.json")


class Own(mx.init.Initializer):
    """One of a program."""

    def _init_weight(self, name, arr):
        arr[:] = 20

    def _init_bias(self, name, arr):
        arr[:] = 21

    def _init_gamma(self, name, arr):
        arr[:] = 22

    def _init_beta(self, name, arr):
        arr[:] = 23

    def _init_default(self, name, arr):
        arr[:] = 24


def made(argument):
    """An argument, with initializers and arrays in the place of what describes them."""
    if isinstance(argument, list):
        return [made(each) for each in argument]
    if not isinstance(argument, dict):
        return argument
    if "array" in argument:
        return mx.nd.array(argument["array"])
    if "init" not in argument:
        return {name: made(value) for name, value in argument.items()}
    name, settings = argument["init"]
    kind = Own if name == "Own" else getattr(mx.init, name)
    return kind(**{key: made(value) for key, value in settings.items()})


def instead(draw):
    """What fills with the second parameter of a distribution in the place of a draw, if there is an array to fill."""

    def fill_out(*args, **kwargs):
        out = kwargs.get("out")
        if out is None:
            return draw(*args, **kwargs)
        out[:] = args[1]
        return out

    return fill_out


def rounded(values):
    """For JSON."""
    return [float("%.7g" % value) for value in np.ravel(values)]


def fill(maker, call):
    """What an array gets, or the class of the error."""
    name, shape, attrs = (call + [{}])[:3]
    array = mx.nd.full(tuple(shape), 7.0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            maker(name if attrs == "plain" else mx.init.InitDesc(name, attrs), array)
    except Exception as error:
        return type(error).__name__
    values = array.asnumpy()
    if isinstance(maker, mx.init.Orthogonal) and name.endswith("weight"):
        values = values.reshape(shape[0], -1).astype(np.float64)
        values = values @ values.T if len(values) <= values.shape[1] else values.T @ values
        return [round(float(value), 4) + 0.0 for value in values.ravel()]
    return rounded(values)


def run(case):
    """What a case gives."""
    lines = []
    handler = logging.StreamHandler()
    handler.emit = lambda record: lines.append(record.getMessage())
    try:
        maker = made(case["make"]) if isinstance(case["make"], dict) else mx.init.create(case["make"])
    except Exception as error:
        return dict(case, refused=type(error).__name__)
    if case.get("verbose"):
        maker.set_verbosity(True)
        logging.getLogger().addHandler(handler)
    found = [fill(maker, call) for call in case["calls"]]
    logging.getLogger().removeHandler(handler)
    case = dict(case, found=found)
    if case.get("verbose"):
        case["log"] = lines
    try:
        return dict(case, dumps=maker.dumps())
    except AttributeError:  # Mixed and Load have none, and a constant list cannot be dumped
        return case


def main():
    logging.getLogger().setLevel(logging.INFO)
    mx.random.uniform, mx.random.normal = instead(mx.random.uniform), instead(mx.random.normal)
    with open(PATH) as file:
        cases = json.load(file)
    found = [run(case) for case in cases]
    if sys.argv[1:] == ["--check"]:
        lines = differences(cases, found, 1e-5)
        print("\n".join(lines) or f"{len(cases)} initializers: as recorded")
        sys.exit(bool(lines))
    with open(PATH, "w") as file:
        file.write("[\n{}\n]\n".format(",\n".join(json.dumps(case) for case in found)))


if __name__ == "__main__":
    main()
