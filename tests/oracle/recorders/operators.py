# SPDX-License-Identifier: Apache-2.0
"""Records what operators of Apache MXNet 1.9.1 compute. Runs under Python 3.8; README.md says how.

python operators.py [FAMILY ...]             computes the recorded cases anew, in place
python operators.py --check [FAMILY ...]     compares with what is recorded, and changes nothing
python operators.py --add FAMILY NEW.json    draws the inputs of new cases and records them
"""

import argparse
import json
import os
import subprocess
import sys
import zlib

os.environ.setdefault("MXNET_SUBGRAPH_BACKEND", "NONE")  # operators as they are, none fused

import mxnet as mx
import numpy as np
from common import function

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "operators")
#: tells a process which cases it is for
VARIABLES = "MX_ORACLE_ENVIRONMENT"
#: relative and absolute difference by type: what threads and instruction sets may change
TOLERANCE = {"float16": (1e-2, 1e-2), "float32": (1e-4, 1e-5), "float64": (1e-6, 1e-8)}


def call(case, given):
    """Runs an operator imperatively: results, and all arguments afterwards.

    Parameters
    ----------
    case : dict
        A case. `out_like` names arguments of the results' shapes, where MXNet cannot tell them itself.
    given : dict
        NumPy arrays by argument.
    """
    args = {name: array(given[name]) for name in case["arguments"]}
    options = attributes(case)
    if "out_like" in case:
        options["out"] = [mx.nd.zeros_like(args[name]) for name in case["out_like"]]
    result = function(mx.nd, case["op"])(*[args[name] for name in case["arguments"]], **options)
    results = result if isinstance(result, (list, tuple)) else [result]
    found = {f"out/{i}": value.asnumpy() for i, value in enumerate(results)}
    found.update({"arg_after/" + name: arg.asnumpy() for name, arg in args.items()})
    return found


def compose(case):
    """The case as a symbol named `op`.

    MXNet makes inputs that are called `op_...` itself. Auxiliary states called `aux0` and so on go by
    place, others by their names.
    """
    given = [name for name in case["arguments"] + case["aux"] if not name.startswith("op_")]
    named = [name for name in given if name in case["aux"] and not name.startswith("aux")]
    inputs = [mx.sym.Variable(name) for name in given if name not in named]
    states = {name: mx.sym.Variable(name) for name in named}
    return function(mx.sym, case["op"])(*inputs, name="op", **dict(states, **attributes(case)))


def bind(case, given, auxiliary, heads):
    """Runs an operator as a graph, forward and, where a gradient is wanted, backward.

    Parameters
    ----------
    case : dict
        A case.
    given, auxiliary : dict
        NumPy arrays by argument and by auxiliary state.
    heads : callable
        Gradient of an output, from its number and value.
    """
    net = compose(case)
    args = {name: array(given[name]) for name in case["arguments"]}
    states = {name: array(auxiliary[name]) for name in case["aux"]}
    wanted = [name for name in case["arguments"] if case["grad_req"].get(name) == "write"]
    grads = {name: mx.nd.zeros(args[name].shape, dtype=args[name].dtype) for name in wanted}
    executor = net.bind(mx.cpu(), args, args_grad=grads, grad_req=case["grad_req"], aux_states=states)
    outputs = executor.forward(is_train=case["is_train"])
    found = {f"out/{i}": value.asnumpy() for i, value in enumerate(outputs)}
    if wanted:
        given_heads = [heads(i, value.asnumpy()) for i, value in enumerate(outputs)]
        executor.backward([array(head) for head in given_heads])
        found.update({f"head_grad/{i}": head for i, head in enumerate(given_heads)})
        found.update({"grad/" + name: grads[name].asnumpy() for name in wanted})
    found.update({"aux_after/" + name: state.asnumpy() for name, state in states.items()})
    case.update(outputs=len(outputs), output_names=net.list_outputs())
    return found


def attributes(case):
    """The case's attributes; MXNet parses their text."""
    return dict(case["attrs"])


def array(value):
    """An NDArray of exactly these numbers and this type."""
    return mx.nd.array(value, dtype=value.dtype)


def recorded(data, case, kind):
    """Arrays of one kind (`arg`, `aux`, `head_grad`) by name."""
    prefix = "{}/{}/".format(case["id"], kind)
    return {key[len(prefix) :]: value for key, value in data.items() if key.startswith(prefix)}


def run(case, data):
    """Everything that is recorded of a case, by the key in the arrays' file."""
    given, auxiliary = recorded(data, case, "arg"), recorded(data, case, "aux")
    heads = recorded(data, case, "head_grad")
    if case.get("imperative_only"):
        found = call(case, given)
    else:
        found = bind(case, given, auxiliary, lambda i, value: heads.get(str(i), np.zeros_like(value)))
    inputs = {"arg/" + name: value for name, value in given.items()}
    inputs.update({"aux/" + name: value for name, value in auxiliary.items()})
    return {"{}/{}".format(case["id"], key): value for key, value in dict(inputs, **found).items()}


def differences(case, old, new):
    """What a case computes otherwise than it is recorded, as lines."""
    lines = []
    for key in sorted(k for k in old if k.startswith(case["id"] + "/")):
        if key not in new:
            lines.append(f"{key}: not computed")
            continue
        was, found = old[key], new[key]
        if was.shape != found.shape or was.dtype != found.dtype:
            text = "{}: recorded {} {}, computed {} {}"
            lines.append(text.format(key, was.dtype, was.shape, found.dtype, found.shape))
            continue
        rtol, atol = TOLERANCE.get(str(was.dtype), (0, 0))
        same = np.isclose(was, found, rtol, atol, equal_nan=True) if rtol else was == found
        if not np.all(same):
            worst = np.abs(np.where(same, 0, was.astype(float) - found.astype(float))).max()
            lines.append(f"{key}: differs by {worst:.3g}")
    return lines


def families():
    """Names of all families."""
    return sorted(name[:-5] for name in os.listdir(DATA) if name.endswith(".json"))


def load(family):
    """Cases and arrays of a family; none of a new one."""
    path = os.path.join(DATA, family)
    if not os.path.exists(path + ".json"):
        return [], {}
    with open(path + ".json") as file, np.load(path + ".npz") as arrays:
        return json.load(file), dict(arrays)


def save(family, cases, arrays):
    """Writes a family."""
    path = os.path.join(DATA, family)
    with open(path + ".json", "w") as file:
        lines = ",\n".join(json.dumps(case) for case in cases)
        file.write("[\n" + lines + "\n]\n")
    np.savez_compressed(path + ".npz", **arrays)


def draw(name, wanted, seed):
    """An input: numbers that are given, or drawn between `low` and `high`."""
    dtype = np.dtype(wanted.get("dtype", "float32"))
    if "values" in wanted:
        return np.array(wanted["values"], dtype)
    rng = np.random.RandomState((zlib.crc32(name.encode()) + seed) % 2**32)
    low, high = wanted.get("low", -1), wanted.get("high", 1)
    return (rng.uniform(low, high, wanted["shape"])).astype(dtype)


def complete(new, taken):
    """A case and its arrays from what a contributor wrote."""
    inputs, states = new.pop("inputs"), new.pop("aux", {})
    case = {"attrs": {}, "is_train": True, "smooth": True}
    case.update(new, arguments=list(inputs), aux=list(states))
    number = 0
    while "{}-new{}".format(case["op"], number) in taken:
        number += 1
    case.setdefault("id", "{}-new{}".format(case["op"], number))
    floats = [n for n, w in inputs.items() if str(w.get("dtype", "float32")).startswith("float")]
    case.setdefault("grad_req", {n: "write" if n in floats and case["is_train"] else "null" for n in inputs})
    arrays = {}
    for kind, group in (("arg", inputs), ("aux", states)):
        for name, wanted in group.items():
            key = "{}/{}/{}".format(case["id"], kind, name)
            arrays[key] = draw(key, wanted, wanted.get("seed", 0))
    if not case.get("imperative_only"):
        probe = compose(case).bind(
            mx.cpu(),
            {n: array(arrays["{}/arg/{}".format(case["id"], n)]) for n in inputs},
            aux_states={n: array(arrays["{}/aux/{}".format(case["id"], n)]) for n in states},
        )
        for i, value in enumerate(probe.forward(is_train=case["is_train"])):
            key = "{}/head_grad/{}".format(case["id"], i)
            arrays[key] = draw(key, {"shape": value.shape, "dtype": value.dtype}, 0)
    return case, arrays


def add(family, path):
    """Records new cases."""
    cases, arrays = load(family)
    taken = {case["id"] for name in families() for case in load(name)[0]}
    with open(path) as file:
        for new in json.load(file):
            case, given = complete(new, taken)
            if case["id"] in taken:
                sys.exit("{} is recorded already".format(case["id"]))
            taken.add(case["id"])
            arrays.update(run(case, given))
            cases.append(case)
            print("recorded", case["id"])
    save(family, cases, arrays)


def renew(family, check):
    """Computes those cases of a family anew that are meant for this environment.

    Returns
    -------
    int
        How many differ from what is recorded.
    """
    cases, arrays = load(family)
    differing = 0
    for case in [c for c in cases if c.get("environment", {}) == here()]:
        before = dict(case)
        try:
            made = run(case, arrays)
        except mx.MXNetError as error:
            sys.exit("{}: {}".format(case["id"], str(error).strip().splitlines()[-1]))
        lines = differences(before, arrays, made)
        changed = [key for key in before if case[key] != before[key]]
        lines += ["{}: {} was {}".format(case["id"], key, before[key]) for key in changed]
        for line in lines:
            print(" ", line)
        differing += bool(lines)
        arrays.update(made)
    if not check:
        save(family, cases, arrays)
    return differing


def here():
    """The variables that this process was started with for its cases."""
    return json.loads(os.environ.get(VARIABLES, "{}"))


def renew_all(wanted, check):
    """Computes families anew, in a process for each environment that their cases ask for."""
    if VARIABLES in os.environ:
        return sum([renew(family, check) for family in wanted])
    found = {json.dumps(c.get("environment", {}), sort_keys=True) for f in wanted for c in load(f)[0]}
    command = [sys.executable, os.path.abspath(__file__), *(["--check"] if check else []), *wanted]
    codes = [
        subprocess.call(command, env=dict(os.environ, **json.loads(wish), **{VARIABLES: wish}))
        for wish in sorted(found)
    ]
    return sum(code != 0 for code in codes)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", metavar="FAMILY")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--add", action="store_true")
    given = parser.parse_args()
    if given.add:
        add(*given.words)
    elif renew_all(given.words or families(), given.check) and given.check:
        sys.exit("what MXNet computes is not what is recorded")


if __name__ == "__main__":
    main()
