# SPDX-License-Identifier: Apache-2.0
"""Records what callbacks and monitors see of trainings in Apache MXNet 1.9.1. Runs under Python 3.8.

python fitting.py             runs the programs of `tests/testkit/fit_programs.py` anew
python fitting.py --check     compares with what is recorded, and changes nothing
"""

import json
import os
import sys
import tempfile
import warnings

os.environ.setdefault("MXNET_SUBGRAPH_BACKEND", "NONE")

import mxnet as mx
from common import differences

HERE = os.path.dirname(os.path.abspath(__file__))
PATH = os.path.join(HERE, os.pardir, "training", "fitting.json")
sys.path.insert(0, os.path.join(HERE, os.pardir, os.pardir, "testkit"))
import fit_programs  # noqa: E402


def main():
    warnings.simplefilter("ignore")
    found = {}
    for name in fit_programs.programs(mx, fit_programs.Seen(), ""):
        with tempfile.TemporaryDirectory() as folder:
            found[name] = fit_programs.run(mx, name, folder)
    if sys.argv[1:] == ["--check"]:
        with open(PATH) as file:
            recorded, again = (text.replace("NaN", '"NaN"') for text in (file.read(), json.dumps(found)))
        lines = differences(json.loads(recorded), json.loads(again), 1e-5)
        print("\n".join(lines) or f"{len(found)} programs: as recorded")
        sys.exit(bool(lines))
    with open(PATH, "w") as file:
        rows = (f"{json.dumps(name)}: {json.dumps(events)}" for name, events in found.items())
        file.write("{{\n{}\n}}\n".format(",\n".join(rows)))


if __name__ == "__main__":
    main()
