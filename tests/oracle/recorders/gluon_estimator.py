# SPDX-License-Identifier: Apache-2.0
"""Records what is seen of trainings with an Estimator in Apache MXNet 1.9.1. Runs under Python 3.8.

python gluon_estimator.py             runs the programs of `tests/testkit/estimator_programs.py` anew
python gluon_estimator.py --check     compares with what is recorded, and changes nothing
"""

import json
import os
import sys
import tempfile

os.environ.setdefault("MXNET_SUBGRAPH_BACKEND", "NONE")

import mxnet as mx
from common import differences

HERE = os.path.dirname(os.path.abspath(__file__))
PATH = os.path.join(HERE, os.pardir, "gluon", "estimator.json")
sys.path.insert(0, os.path.join(HERE, os.pardir, os.pardir, "testkit"))
import estimator_programs  # noqa: E402


def main():
    found = {}
    for name in estimator_programs.PROGRAMS:
        with tempfile.TemporaryDirectory() as folder:
            found[name] = json.loads(json.dumps(estimator_programs.run(mx, name, folder)))
    if sys.argv[1:] == ["--check"]:
        with open(PATH) as file:
            lines = differences(json.load(file), found, 1e-5)
        print("\n".join(lines) or "%d programs: as recorded" % len(found))
        sys.exit(bool(lines))
    with open(PATH, "w") as file:
        rows = ("%s: %s" % (json.dumps(name), json.dumps(events)) for name, events in found.items())
        file.write("{\n%s\n}\n" % ",\n".join(rows))


if __name__ == "__main__":
    main()
