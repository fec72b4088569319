# SPDX-License-Identifier: Apache-2.0
"""The reference of one operator, as reStructuredText."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import mx
from generate import facts
from generate.applications import Application, applications
from generate.differences import Difference
from generate.examples import Recorded, example
from generate.formulas import formula
from generate.naming import found, functions, own_function, shown
from generate.text import protect, table
from mx_core import kernels, plugins
from mx_core.operator import Operator, Params
from mx_core.operator.params import FieldInfo
from mx_core.operator.simple import Elementwise

#: element types whose outputs a parameter of this name sets
DTYPE = "dtype"


@dataclass(frozen=True)
class Surroundings:
    """What a page says that does not come from the operator itself."""

    recorded: Sequence[Recorded] = ()
    related: Sequence[Operator] = ()
    differences: Sequence[Difference] = ()
    #: the page of another operator, as a link
    link: Callable[[Operator], str] = field(default=lambda op: f"``{shown(op)}``")


def page(op: Operator, around: Surroundings) -> str:
    """A page of its own."""
    name = shown(op)
    spellings = ", ".join(dict.fromkeys([name, op.name, *op.aliases]))
    lines = [".. meta::", f"   :description: {name}: {summary(op)}", f"   :keywords: {spellings}", ""]
    lines += [name, "=" * len(name), ""]
    lines += body(op, around, lambda text: [text, "-" * len(text), ""])
    return "\n".join(lines) + "\n"


def section(op: Operator, around: Surroundings) -> list[str]:
    """A part of a page, with the same content."""
    name = shown(op)
    heading = re.sub(r"^_|_$", r"\\_", name)
    lines = [f".. _{anchor(op)}:", "", heading, "-" * len(heading), ""]
    return lines + body(op, around, lambda text: [f".. rubric:: {text}", ""])


def anchor(op: Operator) -> str:
    """Label of an operator that shares a page."""
    return "operator-" + op.name.strip("_").replace("_", "-").lower()


def summary(op: Operator) -> str:
    """The first line of the documentation."""
    return (inspect.getdoc(type(op)) or "").split("\n")[0]


def body(op: Operator, around: Surroundings, heading: Callable[[str], list[str]]) -> list[str]:
    """Everything below the title."""
    lines_of_example = example(op, around.recorded)
    known = applications(op, lines_of_example, around.recorded)
    p = known[0].params if known else facts.default_parameters(op)
    parts = [
        ("", [*signatures(op), *described(op, around.recorded)]),
        ("Inputs", inputs(op, p, known)),
        ("Parameters", parameters(op)),
        ("Outputs", outputs(op, p, known)),
        ("Shapes", shapes(op, known)),
        ("Gradient", gradient(op, p)),
        ("Errors", literal(facts.refusals(op, p, known))),
        ("Example", literal(lines_of_example)),
        ("Kernels", kernel_table(op)),
        ("Source", source(op)),
        ("Differs from MXNet 1.9.1", differences(around.differences)),
        ("See also", [", ".join(map(around.link, around.related)), ""] if around.related else []),
    ]
    return [line for title, lines in parts if lines for line in (*(heading(title) if title else ()), *lines)]


# ---- what it is ---------------------------------------------------------------------------------


def signatures(op: Operator) -> list[str]:
    """`mx.nd` and `mx.sym`; index entries for every other name."""
    others = [name for name in dict.fromkeys((op.name, *op.aliases)) if name != shown(op)]
    lines = [f".. index:: {', '.join(f'single: {name}' for name in others)}", ""] if others else []
    name = functions(op)[0].removeprefix("mx.nd.")
    own = own_function(op)
    calls = [f"mx.nd.{name}{signature(op, ('out',)) if own is None else written_signature(own)}"]
    symbolic = found(mx.sym, name)
    if symbolic is None:
        calls.append(f"mx.sym._internal.{op.name}{signature(op, ('name', 'attr'))}")
    elif hasattr(symbolic, "__wrapped_operator__"):
        calls.append(f"mx.sym.{name}{signature(op, ('name', 'attr'))}")
    else:
        calls.append(f"mx.sym.{name}{written_signature(symbolic)}")
    if own is not None and functions(op)[1:]:
        calls.append(f"{functions(op)[1]}{signature(op, ('out',))}")
    indent = f"\n{' ' * len('.. py:function:: ')}"
    return [*lines, f".. py:function:: {indent.join(calls)}", ""]


def signature(op: Operator, keywords: Iterable[str]) -> str:
    """Inputs, then parameters; what has to be given has no default."""
    needed = {*op.arguments, *op.auxiliaries, *(i.name for i in op.Param.fields() if i.required)}
    if op.variadic is not None:
        needed.add("data")
    kept = []
    given = op.signature().parameters.values()
    for p in given:
        if p.name in ("out", "name", "kwargs"):
            continue
        bare = p.kind is p.VAR_POSITIONAL or p.name in needed
        kept.append(
            ("*" if p.kind is p.VAR_POSITIONAL else "") + p.name + ("" if bare else f"={p.default!r}")
        )
    taken = {p.name for p in given if p.kind is not p.VAR_KEYWORD} - {"out", "name"}
    return f"({', '.join([*kept, *(f'{name}=None' for name in keywords if name not in taken)])})"


def written_signature(function: Callable[..., object]) -> str:
    """Of a function written in Python, without its annotations; a type as a default by its name."""
    given = inspect.signature(function)
    bare = [p.replace(annotation=p.empty) for p in given.parameters.values()]
    text = str(given.replace(parameters=bare, return_annotation=given.empty))
    return re.sub(r"<class '(?:\w+\.)*(\w+)'>", r"\1", text)


def described(op: Operator, recorded: Sequence[Recorded]) -> list[str]:
    """The documentation of the declaration, its formula, its other names, what is special about it."""
    text = protect(inspect.getdoc(type(op)) or "").split("\n")
    computed = formula(op, [attrs for attrs, _ in recorded])
    if computed is not None:
        computed = f"({computed})" if " = " in computed and len(op.results) == 1 else computed
        text += ["", f":Formula: ``{op.results[0]} = {computed}``"]
    said = [("Operator", f"``{op.name}``")] if op.name != shown(op) else []
    if op.aliases:
        said.append(("Also known as", ", ".join(f"``{name}``" for name in op.aliases)))
    if op.is_random:
        said.append(("Random", "takes numbers from the stream of its context; ``mx.random.seed`` sets it"))
    if op.dynamic_output:
        said.append(("Dynamic", "the shape of the output is known only when it has run"))
    if op.needs_train_flag:
        said.append(("Training", "computes something else in training"))
    if op.is_loss:
        said.append(("Loss", "backward begins here and reads no gradient of the output"))
    if own_function(op) is not None:
        said.append(("Function", "written in Python around the operator"))
    if said and computed is None:
        text.append("")
    text += [f":{label}: {value}" for label, value in said]
    return [*(f"   {line}".rstrip() for line in text), ""]


# ---- tables -------------------------------------------------------------------------------------


def inputs(op: Operator, p: Params | None, known: Sequence[Application]) -> list[str]:
    """Arrays that it reads: name, element type, what happens to them."""
    if p is None:
        return ["Any number of arrays.", ""] if op.variadic else []
    names = [*op.inputs(p), *op.aux(p)]
    optional = [
        name for name in (*op.arguments, *op.auxiliaries) if name not in names and op.variadic is None
    ]
    if not names and not optional:
        return ["None.", ""]
    types, letters = facts.element_types(op, p, known[0] if known else None)
    written = {names[i] for i in op.mutated_inputs(p)}
    rows = []
    for name in names:
        role = (
            "auxiliary state, updated"
            if name in op.aux(p)
            else "input, written as well"
            if name in written
            else "input"
        )
        rows.append((f"``{name}``", role, type_text(types[name])))
    for name in optional:
        asking = next((one for one in known if name in one.inputs), None)
        kind = (
            type_text(facts.element_types(op, asking.params, asking)[0][name]) if asking is not None else ""
        )
        rows.append((f"``{name}``", "input that some parameters ask for", kind))
    lines = table(("Name", "Role", "Element type"), rows)
    if op.variadic is not None:
        lines += [f"Any number of arrays, which ``{op.variadic}`` counts; here {len(names)}.", ""]
    lines += [f"{letter}: {meaning}." for letter, meaning in letters.items()]
    return [*lines, ""]


def parameters(op: Operator) -> list[str]:
    """Name, type, default, range, meaning."""
    rows = []
    for info in op.Param.fields():
        default = "required" if info.required else f"``{info.default!r}``"
        kind = protect(info.type_name.replace("Shape", "tuple of int"))
        rows.append((f"``{info.name}``", kind, default, bounds(info), protect(info.doc)))
    return table(("Name", "Type", "Default", "Range", "Meaning"), rows) if rows else []


def bounds(info: FieldInfo) -> str:
    """Inclusive limits."""
    if info.lower is None and info.upper is None:
        return ""
    if info.upper is None:
        return f"≥ {info.lower:g}"
    return f"≤ {info.upper:g}" if info.lower is None else f"{info.lower:g} to {info.upper:g}"


def outputs(op: Operator, p: Params | None, known: Sequence[Application]) -> list[str]:
    """Arrays that it makes; hidden ones are named, since backward keeps them."""
    if p is None:
        return []
    names = op.outputs(p)
    visible = names[: op.num_visible_outputs(p)]
    types, _ = facts.element_types(op, p, known[0] if known else None)
    rows = []
    for name in visible:
        set_by = DTYPE in {i.name for i in op.Param.fields()} and types[name] == getattr(p, DTYPE, None)
        rows.append(
            (f"``{name}``", f"that of the parameter ``{DTYPE}``" if set_by else type_text(types[name]))
        )
    lines = table(("Name", "Element type"), rows) if rows else ["None.", ""]
    hidden = names[len(visible) :]
    if hidden:
        lines += [f"Hidden, kept for backward: {', '.join(f'``{name}``' for name in hidden)}.", ""]
    return lines


def type_text(text: str) -> str:
    """A letter in italics, a type as code."""
    if text == "any":
        return "any"
    first, _, rest = text.partition(", ")
    name = f"*{first}*" if len(first) == 1 else f"``{first}``"
    return f"{name}, {rest}" if rest else name


def shapes(op: Operator, known: Sequence[Application]) -> list[str]:
    """The rule in words where it is a common one, and up to three inferences."""
    lines = []
    if isinstance(op, Elementwise) and len(op.arguments) + (op.variadic is not None) > 1:
        lines += ["Shapes are broadcast as NumPy does." if op.broadcast else "All have one shape.", ""]
    elif type(op).infer_shape is Operator.infer_shape or isinstance(op, Elementwise):
        lines += ["The output has the shape of the input.", ""]
    inferred = []
    for one in known[:3]:
        left = ", ".join(f"{name} {shape}" for name, shape in one.inputs.items()) or "nothing"
        settings = one.settings(op)
        inferred.append(left + (f"; {settings}" if settings else ""))
        inferred.append("   → " + ", ".join(f"{name} {shape}" for name, shape in one.outputs.items()))
    return lines + literal(inferred)


def gradient(op: Operator, p: Params | None) -> list[str]:
    """Sentences."""
    return [*facts.gradient_facts(op, p), ""] if p is not None else []


def kernel_table(op: Operator) -> list[str]:
    """What computes it on each device, the first that can."""
    rows = []
    for device in ("cpu", *plugins.registry("devices").names()):
        found = [spec.variant for spec in kernels.candidates(op, device)]
        rows.append((device, ", ".join(found) or "none"))
    return table(("Device", "Kernels, the first that supports the call"), rows)


def source(op: Operator) -> list[str]:
    """The file of its declaration."""
    return [f"``{type(op).__module__.replace('.', '/')}.py``, class ``{type(op).__qualname__}``", ""]


def differences(found: Sequence[Difference]) -> list[str]:
    """Rows of the table of deviations."""
    rows = [tuple(marked(text) for text in row) for row in found]
    return table(("What", "MXNet 1.9.1", "Here"), rows) if rows else []


def marked(markdown: str) -> str:
    """A table cell of a Markdown page."""
    return protect(re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", markdown))


def literal(lines: Sequence[str]) -> list[str]:
    """A literal block."""
    return ["::", "", *(f"   {line}".rstrip() for line in lines), ""] if lines else []
