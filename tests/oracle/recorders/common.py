# SPDX-License-Identifier: Apache-2.0
"""What the recorders share. Runs under Python 3.8."""

import json
import sys

import numpy as np


def differences(old, new, tolerance, place=""):
    """Where two nested values of dicts, lists, numbers and text differ, as lines.

    Parameters
    ----------
    tolerance : float
        Absolute difference of floating-point numbers that does not count.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        lines = [f"{place}/{key}: only in one" for key in sorted(set(old) ^ set(new), key=str)]
        for key in sorted(set(old) & set(new), key=str):
            lines += differences(old[key], new[key], tolerance, f"{place}/{key}")
        return lines
    if isinstance(old, np.ndarray):
        same = old.shape == new.shape and np.allclose(old, new, 0, tolerance)
        return [] if same else [f"{place}: other numbers"]
    if isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)) and len(old) == len(new):
        found = [differences(a, b, tolerance, f"{place}[{i}]") for i, (a, b) in enumerate(zip(old, new))]
        return [line for lines in found for line in lines]
    if isinstance(old, float) and isinstance(new, (int, float)) and abs(old - new) <= tolerance:
        return []
    return [] if old == new else [f"{place}: recorded {old!r}, now {new!r}"]


def write_or_check(path, found, tolerance, indent=1):
    """Writes what was found into a file of JSON; with the argument `--check` compares, and ends the program."""
    found = json.loads(json.dumps(found))
    if sys.argv[1:] != ["--check"]:
        with open(path, "w") as file:
            json.dump(found, file, indent=indent)
            file.write("\n")
        return
    with open(path) as file:
        lines = differences(json.load(file), found, tolerance)
    print("\n".join(lines) or "no difference")
    sys.exit(bool(lines))


def function(module, op):
    """The function of an operator in `mx.nd` or `mx.sym`, by its registered name."""
    for home in (module, module.op, module._internal):
        if hasattr(home, op):
            return getattr(home, op)
    space, _, name = op[1:].partition("_")
    return getattr(getattr(module, space), name)
