# SPDX-License-Identifier: Apache-2.0
"""The reference of the operators: a page each, an index per family, one of all names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from generate.differences import by_operator
from generate.examples import recorded_cases, shown_operators
from generate.naming import public_name, shown
from generate.operator_page import Surroundings, anchor, page, section, summary
from generate.related import relatives
from generate.text import protect, table
from mx_core.operator import Operator

TITLES = {
    "array": "Arrays: making, shaping, joining, indexing, sorting",
    "contrib": "Contributed operators",
    "elementwise": "Elementwise arithmetic and functions",
    "image": "Images: colours, cropping, flipping, resizing",
    "linalg": "Products and linear algebra",
    "loss": "Losses",
    "nn": "Layers of neural networks",
    "optimizer": "Optimizer updates",
    "random": "Random numbers and densities",
    "reduce": "Reductions: sums, means, extremes, norms",
    "rnn": "Recurrent networks",
    "sequence": "Sequences of different lengths",
    "vision": "Vision: regions, boxes, sampling, resizing",
    "mx-example-operators": "Operators of the example plug-in (mx-example-operators)",
    "mx-ndarray": "Operators written in Python (mx-ndarray)",
}
#: names of kernels, in the order in which they are preferred
VARIANTS = {
    "onednn": "a oneDNN primitive",
    "cudnn": "cuDNN, where it is installed",
    "cublas": "cuBLAS",
    "upcast": "16-bit floating-point arrays converted to float32, computed, and rounded",
    "vector": "vectorised loops on the CPU",
    "nvrtc": "a CUDA kernel compiled at first use",
    "python": "Python code of a custom operator",
    "reference": "the readable NumPy of the declaration, for main memory",
}
RECORDED = Path("tests") / "oracle" / "operators"
INTERNAL = "internal"
Families = Mapping[str, Sequence[Operator]]


def write(target: Path, root: Path) -> None:
    """`index.rst`, `names.rst`, and per family a folder with an index and its operators' pages."""
    for name, text in pages(root):
        path = target / f"{name}.rst"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def pages(root: Path) -> list[tuple[str, str]]:
    """Name and text of every page."""
    ops = shown_operators()
    recorded = recorded_cases(root / RECORDED)
    near, differing = relatives(ops), by_operator(root)
    families = by_family(ops)

    def around(op: Operator) -> Surroundings:
        return Surroundings(recorded.get(op.name, ()), near[op.name], differing.get(op.name, ()), link)

    found = [("index", index(families)), ("names", names(ops))]
    for family, members in families.items():
        found.append((f"{family}/index", family_index(family, members)))
        found += [(place(op), page(op, around(op))) for op in members if public_name(op) is not None]
        internal = [op for op in members if public_name(op) is None]
        if internal:
            heading = f"{title(family)}: internal operators"
            lines = [heading, "=" * len(heading), "", *INTERNAL_NOTE, ""]
            lines += [line for op in internal for line in section(op, around(op))]
            found.append((f"{family}/{INTERNAL}", "\n".join(lines) + "\n"))
    return found


INTERNAL_NOTE = (
    "Names that begin with an underscore. Programs reach them through the operators of arrays and symbols,",
    "indexing and functions written in Python, or find them in symbol files; ``mx.nd._internal`` has them all.",
)


def by_family(ops: Sequence[Operator]) -> dict[str, list[Operator]]:
    """Operators by family, in the order of their titles, with names in alphabetical order."""
    found: dict[str, list[Operator]] = defaultdict(list)
    for op in sorted(ops, key=lambda op: shown(op).lower()):
        found[family_of(op)].append(op)
    return {name: found[name] for name in sorted(found, key=title)}


def family_of(op: Operator) -> str:
    """Where an operator is filed: the folder of its module, or the package of a plug-in."""
    parts = type(op).__module__.split(".")
    return parts[1] if parts[0] == "mx_operators" else parts[0].replace("_", "-")


def title(family: str) -> str:
    """Heading of a family's page."""
    return TITLES.get(family, family)


def place(op: Operator) -> str:
    """Path of the page that an operator is on, without suffix."""
    return f"{family_of(op)}/{public_name(op) or INTERNAL}"


def link(op: Operator) -> str:
    """A reference to an operator, from any page."""
    if public_name(op) is None:
        return f":ref:`{shown(op)} <{anchor(op)}>`"
    return f":doc:`{shown(op)} </reference/generated/operators/{place(op)}>`"


# ---- indexes ------------------------------------------------------------------------------------


def index(families: Families) -> str:
    """The page that lists the families."""
    count = sum(map(len, families.values()))
    own = sum(public_name(op) is not None for members in families.values() for op in members)
    lines = ["Operators", "=========", ""]
    lines += [
        f"{count} operators, {own} of them with a page each, written from their declarations when this",
        "documentation is built; every example was run then. An operator is a function of ``mx.nd``, which computes,",
        "and of ``mx.sym``, which builds a graph. :doc:`names` lists all names and aliases.",
        "",
        "Every function of ``mx.nd`` takes ``out``, where the result is put; every function of ``mx.sym`` takes",
        "``name`` and ``attr``. An unknown parameter is an ``ArgumentError`` that lists those there are. Errors are",
        "those of ``mx_core.errors``, and each is an ``MXNetError``: ``ShapeError`` and ``ArgumentError`` are",
        "``ValueError`` too, ``DTypeError`` is a ``TypeError``. What is found out by inference is raised by the call;",
        "what depends on values is raised when the result is waited for.",
        "",
        "A page's table of kernels lists what may compute the operator, the first that supports the call is taken:",
        "", *(f"- ``{name}``: {meaning}" for name, meaning in VARIANTS.items()),
        "", ".. toctree::", "   :maxdepth: 1", "",
    ]  # fmt: skip
    return "\n".join([*lines, *(f"   {name}/index" for name in families), "   names"]) + "\n"


def family_index(family: str, members: Sequence[Operator]) -> str:
    """The page of a family: its operators with what each computes."""
    lines = [title(family), "=" * len(title(family)), ""]
    public = [op for op in members if public_name(op) is not None]
    internal = [op for op in members if public_name(op) is None]
    if public:
        lines += table(("Operator", "Computes"), [(link(op), protect(summary(op))) for op in public])
    if internal:
        lines += [f"Internal operators: {', '.join(map(link, internal))}.", ""]
    lines += [".. toctree::", "   :hidden:", "", *(f"   {public_name(op)}" for op in public)]
    return "\n".join([*lines, *([f"   {INTERNAL}"] if internal else [])]) + "\n"


def names(ops: Sequence[Operator]) -> str:
    """Every name and alias with the page that has it."""
    rows = {}
    for op in ops:
        for name in (shown(op), op.name, *op.aliases):
            rows[name] = (f"``{name}``", link(op))
    lines = ["All names of operators", "======================", ""]
    lines += table(("Name", "Operator"), [rows[name] for name in sorted(rows, key=str.lower)])
    return "\n".join(lines) + "\n"
