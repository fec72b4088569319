# SPDX-License-Identifier: Apache-2.0
"""Reference pages of the operators, from their declarations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from sphinx.ext.napoleon import Config
from sphinx.ext.napoleon.docstring import NumpyDocstring

from generate.examples import Recorded, example, recorded_cases
from generate.formulas import formula
from generate.text import protect
from mx_core import operators
from mx_core.operator import OperatorProperty, gradient_of, infer_shapes

TITLES = {
    "array": "Arrays: making, shaping, joining, indexing, sorting",
    "elementwise": "Elementwise",
    "linalg": "Products and linear algebra",
    "loss": "Losses",
    "nn": "Layers",
    "optimizer": "Optimizer updates",
    "random": "Random numbers",
    "reduce": "Reductions",
    "rnn": "Recurrent networks",
}


def write(target: Path, root: Path) -> None:
    """`index.rst` and a page per family."""
    recorded = recorded_cases(root / "packages/mx-operators/tests/data/conformance")
    families: dict[str, dict[str, OperatorProperty]] = defaultdict(dict)
    for name in operators.names():
        op = operators.get(name)
        if not op.name.startswith("_backward"):
            families[family(op)][op.name] = op
    for name, members in families.items():
        (target / f"{name}.rst").write_text(page(name, members, recorded))
    count = sum(map(len, families.values()))
    (target / "index.rst").write_text(index(families, count))


def family(op: OperatorProperty) -> str:
    """Where an operator is filed: the folder of its module, or the package of a plug-in."""
    parts = type(op).__module__.split(".")
    return parts[1] if parts[0] == "mx_operators" else parts[0].replace("_", "-")


def title(name: str) -> str:
    """Heading of a family's page."""
    return TITLES.get(name, name if "-" in name else name.replace("_", " ").capitalize())


def index(families: Mapping[str, Iterable[str]], count: int) -> str:
    """The page that lists the families."""
    lines = ["Operators", "=========", ""]
    lines += [
        f"{count} operators, generated from their declarations. Each is a function of ``mx.nd``, which "
        "computes, and of ``mx.sym``, which builds a graph; names that begin with an underscore are "
        "reached through the operators of arrays and symbols, or occur in symbol files.",
        "", ".. toctree::", "   :maxdepth: 1", "",
    ]  # fmt: skip
    lines += [f"   {name}" for name in sorted(families, key=title)]
    return "\n".join(lines) + "\n"


def page(
    name: str, members: Mapping[str, OperatorProperty], recorded: Mapping[str, Sequence[Recorded]]
) -> str:
    """A family."""
    lines = [title(name), "=" * len(title(name)), ""]
    for op_name in sorted(members, key=lambda n: (n.startswith("_"), n.lower())):
        lines += section(members[op_name], recorded.get(op_name, []))
    return "\n".join(lines) + "\n"


@cache
def _napoleon() -> Config:
    return Config(napoleon_use_rtype=False, napoleon_use_param=True)


def section(op: OperatorProperty, cases: Sequence[Recorded]) -> list[str]:
    """One operator: signature, documentation, what else its declaration says, an example that is run."""
    heading = op.name.replace("_", r"\_") if op.name.endswith("_") or op.name.startswith("_") else op.name
    lines = [heading, "-" * len(heading), "", f".. py:function:: {op.name}{signature(op)}", ""]
    described = op.doc().split("\n\nReturns\n")[0]  # the rest is among the facts
    body = str(NumpyDocstring(protect(described), _napoleon())).split("\n")
    computed = formula(op, [attrs for attrs, _ in cases])
    if computed is not None:
        body += [f":Formula: ``{op.results[0]} = {computed}``"]
    body += [f":{label}: {value}" for label, value in facts(op)]
    body += shapes(op, cases)
    body += ["", "For example::", "", *(f"   {line}" for line in example(op, cases)), ""]
    return lines + [f"   {line}".rstrip() for line in body] + [""]


def signature(op: OperatorProperty) -> str:
    """Without the keywords that every operator takes."""
    given = op.signature()
    kept = [p for p in given.parameters.values() if p.name not in ("out", "name", "kwargs")]
    return str(given.replace(parameters=kept))


def facts(op: OperatorProperty) -> list[tuple[str, str]]:
    """What the declaration says besides names and parameters."""
    found = [("Returns", ", ".join(op.results))]
    if op.aliases:
        found.append(("Also known as", ", ".join(op.aliases)))
    if op.auxiliaries:
        found.append(("Auxiliary states", ", ".join(op.auxiliaries) + " (changed by the operator)"))
    if op.is_random:
        found.append(("Random", "takes numbers from the stream of its context"))
    if op.dynamic_output:
        found.append(("Shape", "known only when it has run"))
    if op.needs_train_flag:
        found.append(("Training", "computes something else while training"))
    if op.is_loss:
        found.append(("Loss", "backward begins here and reads no gradient of the output"))
    return found


def shapes(op: OperatorProperty, cases: Iterable[Recorded]) -> list[str]:
    """Up to two examples of inference: the shapes of recorded cases through the declared rule."""
    lines: list[str] = []
    seen = set()
    for recorded, arrays in cases:
        attrs, given = dict(recorded), [x.shape for x in arrays]
        if op.variadic and op.variadic not in attrs:
            attrs[op.variadic] = len(given)
        p = op.Param.parse(attrs, op=op.name)
        n_inputs = len(op.inputs(p)) + len(op.aux(p))
        inputs, outputs = infer_shapes(op, p, [*given, *[None] * (n_inputs - len(given))])
        key = (tuple(map(len, inputs)), tuple(sorted(attrs)))
        if key in seen or len(seen) == 2:
            continue
        seen.add(key)
        names = [*op.inputs(p), *op.aux(p)]
        left = ", ".join(f"{n} {s}" for n, s in zip(names, inputs, strict=True)) or "nothing"
        visible = list(zip(op.outputs(p), outputs, strict=True))[: op.num_visible_outputs(p)]
        right = ", ".join(f"{n} {s}" for n, s in visible)
        with_ = "".join(f", {k}={v}" for k, v in sorted(attrs.items()) if k != op.variadic)
        lines += [f"   {left}{with_}", f"      → {right}"]
    if not lines:
        return []
    differentiable = not gradient_of(op, p).is_zero
    note = [] if differentiable else ["", "Its gradient is zero."]
    return [*note, "", "Shapes::", "", *lines, ""]
