# SPDX-License-Identifier: Apache-2.0
"""Records the names of Apache MXNet 1.9.1. Runs under Python 3.8; README.md says how.

    python names.py             records everything anew
    python names.py --check     compares with what is recorded, and changes nothing

The groups of `operators.json` and `public.json`, and the cases of `inputs.json`, are kept: what is recorded
is what MXNet has in them.
"""

import ctypes
import importlib
import inspect
import json
import os
import sys

import mxnet as mx
from common import differences, function
from mxnet.base import _LIB, check_call, py_str

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "names")
SIMPLE = (type(None), bool, int, float, str)


def aliases():
    """Registered operator -> its other names, as MXNet's registry has them."""
    size, names = ctypes.c_uint(), ctypes.POINTER(ctypes.c_char_p)()
    check_call(_LIB.MXListAllOpNames(ctypes.byref(size), ctypes.byref(names)))
    found = {}
    for name in sorted(py_str(names[i]) for i in range(size.value)):
        handle = ctypes.c_void_p()
        check_call(_LIB.NNGetOpHandle(ctypes.c_char_p(name.encode()), ctypes.byref(handle)))
        real, rest = ctypes.c_char_p(), [ctypes.c_char_p(), ctypes.c_uint()]
        lists = [ctypes.POINTER(ctypes.c_char_p)() for _ in range(3)]
        back = ctypes.c_char_p()
        check_call(
            _LIB.NNGetOpInfo(handle, ctypes.byref(real), *[ctypes.byref(x) for x in (*rest, *lists, back)])
        )
        found.setdefault(py_str(real.value), []).append(name)
    return {real: [n for n in names if n != real] for real, names in found.items()}


def operators(recorded):
    """The recorded groups of operators, with their aliases."""
    known = aliases()
    return {
        kind: {name: known[name] for name in members if name in known} for kind, members in recorded.items()
    }


def inputs(recorded):
    """Names of inputs, states and outputs of operators whose inputs MXNet makes."""
    found = []
    for case in recorded:
        made = function(mx.sym, case["op"])(name="op", **case["attrs"])
        names = {"arguments": made.list_arguments(), "aux": made.list_auxiliary_states()}
        found.append({"op": case["op"], "attrs": case["attrs"], **names, "outputs": made.list_outputs()})
    return found


def place(path):
    """The module or class of a group, `mx.nd.NDArray`."""
    parts = path.split(".")[1:]
    found = mx
    for i, part in enumerate(parts):
        if not hasattr(found, part):
            importlib.import_module("mxnet." + ".".join(parts[: i + 1]))
        found = getattr(found, part)
    return found


def parameters(thing):
    """Parameters as text, `"data axis=None **kwargs"`; None where Python cannot tell."""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return None
    words = []
    for parameter in signature.parameters.values():
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        shown = isinstance(parameter.default, SIMPLE) or parameter.default == ()
        words.append(stars + parameter.name + ("={!r}".format(parameter.default) if shown else ""))
    return " ".join(word for word in words if word not in ("self", "cls"))


def public(recorded):
    """The recorded groups of public names, with what Python tells of their parameters."""
    found = {}
    homes = {group: mx if group == "modules" else place(group) for group in recorded}  # imports all
    for group, members in recorded.items():
        home = homes[group]
        found[group] = {
            name: None if text is None else parameters(getattr(home, name))
            for name, text in members.items()
            if group == "modules" or hasattr(home, name)
        }
    return found


def main():
    check = sys.argv[1:] == ["--check"]
    differing = False
    for name, recorder in (("operators", operators), ("inputs", inputs), ("public", public)):
        path = os.path.join(DATA, name + ".json")
        with open(path) as file:
            recorded = json.load(file)
        made = recorder(recorded)
        lines = differences(recorded, made, 0)
        print("\n".join(lines) or "{}: as recorded".format(name))
        differing = differing or bool(lines)
        if not check:
            with open(path, "w") as file:
                if name == "inputs":
                    file.write("[\n" + ",\n".join(json.dumps(case) for case in made) + "\n]\n")
                else:
                    json.dump(made, file, indent=1, sort_keys=True)
                    file.write("\n")
    if check:
        sys.exit(differing)


if __name__ == "__main__":
    main()
