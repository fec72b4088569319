# SPDX-License-Identifier: Apache-2.0
"""Records the losses of whole trainings in Apache MXNet 1.9.1. Runs under Python 3.8.

python trainings.py             runs `tests/testkit/training_programs.py` anew
python trainings.py --check     compares the first 20 steps with what is recorded, and changes nothing
"""

import json
import os
import sys

os.environ.setdefault("MXNET_SUBGRAPH_BACKEND", "NONE")

import mxnet as mx
from common import differences

HERE = os.path.dirname(os.path.abspath(__file__))
PATH = os.path.join(HERE, os.pardir, "training", "trainings.json")
sys.path.insert(0, os.path.join(HERE, os.pardir, os.pardir, "testkit"))
import training_programs as programs  # noqa: E402


def begun(trainings):
    """The losses of the first steps, which the rounding of a processor hardly changes."""
    return {key: found["losses"][:20] for key, found in trainings.items()}


def main():
    found = {}
    for name in programs.TRAININGS:
        for style in programs.STYLES:
            found["%s, %s" % (name, style)] = programs.run(mx, name, style)
            print(name, style, found["%s, %s" % (name, style)]["losses"][::7], file=sys.stderr)
    if sys.argv[1:] == ["--check"]:
        with open(PATH) as file:
            lines = differences(begun(json.load(file)), begun(found), 1e-3)
        print("\n".join(lines) or "%d trainings: as recorded" % len(found))
        sys.exit(bool(lines))
    with open(PATH, "w") as file:
        rows = ("%s: %s" % (json.dumps(key), json.dumps(value)) for key, value in found.items())
        file.write("{\n%s\n}\n" % ",\n".join(rows))


if __name__ == "__main__":
    main()
