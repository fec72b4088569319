# SPDX-License-Identifier: Apache-2.0
"""Records what metrics of Apache MXNet 1.9.1 say. Runs under Python 3.8; README.md says how.

python metrics.py             runs the cases of `metrics.json` anew
python metrics.py --check     compares with what is recorded, and changes nothing

A case makes a metric, `create(*make)`, and calls it. Arrays are nested lists; `FUNCTIONS` are the custom metrics. After
each call stand what `get` and `get_global` give and the attributes that count, or the class of the error.
"""

import json
import os
import sys
import warnings

import mxnet as mx
import numpy as np
from common import differences

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "training", "metrics.json")
FUNCTIONS = {
    "FUNCTION value": lambda label, pred: float(np.abs(label - pred).sum()),
    "FUNCTION sum and count": lambda label, pred: (float(pred.sum()), label.size),
}
COUNTS = ("num_inst", "sum_metric", "global_num_inst", "global_sum_metric")


def made(argument):
    """An argument of `create`, with functions in the place of their names."""
    if isinstance(argument, list):
        return [made(each) for each in argument]
    return FUNCTIONS.get(argument, argument) if isinstance(argument, str) else argument


def arrays(given):
    """Arrays in the place of nested lists of numbers: one, a list of them, or a dict."""
    if isinstance(given, dict):
        return {name: mx.nd.array(value) for name, value in given.items()}
    return [mx.nd.array(value) for value in given]


def plain(value):
    """What a metric says, for JSON."""
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value if isinstance(value, str) else float(value)


def said(metric):
    """What can be asked of a metric."""
    found = {"get": plain(metric.get()), "get_global": plain(metric.get_global())}
    if not isinstance(metric, mx.metric.CompositeEvalMetric):
        found.update({name: float(getattr(metric, name)) for name in COUNTS})
    return found


def run(case):
    """What the metric says after each call."""
    try:
        metric = mx.metric.create(made(case["make"]), **case.get("settings", {}))
    except Exception as error:
        return dict(case, refused=type(error).__name__)
    rows = []
    for name, *given in case["calls"]:
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                getattr(metric, name)(*map(arrays, given))
                rows.append(said(metric))
        except Exception as error:
            rows.append(type(error).__name__)
    return dict(case, config=config(metric), said=rows)


def config(metric):
    """What `get_config` gives, or the class of its error."""
    try:
        return metric.get_config()
    except Exception as error:
        return type(error).__name__


def main():
    with open(PATH) as file:
        cases = json.load(file)
    found = [run(case) for case in cases]
    if sys.argv[1:] == ["--check"]:
        recorded, again = (
            json.dumps(rows, sort_keys=True).replace("NaN", '"NaN"') for rows in (cases, found)
        )
        lines = differences(json.loads(recorded), json.loads(again), 1e-6)
        print("\n".join(lines) or f"{len(cases)} metrics: as recorded")
        sys.exit(bool(lines))
    with open(PATH, "w") as file:
        file.write("[\n{}\n]\n".format(",\n".join(json.dumps(case) for case in found)))


if __name__ == "__main__":
    main()
