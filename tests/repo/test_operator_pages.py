# SPDX-License-Identifier: Apache-2.0
"""The reference of the operators: a page each, found under every name, links that lead somewhere, true facts."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from generate import applications, differences, facts, naming, related
from generate import operators as reference
from generate.examples import shown_operators
from generate.operator_page import signatures
from generate.text import table

import mx
from mx_core import kernels, operators
from mx_core.operator import Operator

ROOT = Path(__file__).parents[2]
OPERATORS = shown_operators()
PUBLIC = [op for op in OPERATORS if naming.public_name(op) is not None]
HEADINGS = ("Outputs", "Gradient", "Example", "Kernels", "Source")


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return dict(reference.pages(ROOT))


def test_every_operator_with_a_name_has_a_page_of_its_own(pages: dict[str, str]) -> None:
    assert len({reference.place(op).lower() for op in PUBLIC}) == len(PUBLIC) > 280, "one file for two"
    assert {reference.place(op) for op in PUBLIC} <= pages.keys()


@pytest.mark.parametrize("op", PUBLIC, ids=lambda op: op.name)
def test_a_page_has_every_part(op: Operator, pages: dict[str, str]) -> None:
    page = pages[reference.place(op)]
    assert f".. py:function:: {naming.functions(op)[0]}(" in page
    for heading in HEADINGS:
        if op.name != "Custom" or heading == "Example":
            assert f"\n{heading}\n{'-' * len(heading)}\n" in page, heading
    for info in op.Param.fields():
        assert f"``{info.name}``" in page
    assert ">>> " in page
    file = re.search(r"^``(\S+\.py)``, class ``", page, re.M)
    assert file and find_spec(file[1].removesuffix(".py").replace("/", ".")) is not None


def test_internal_operators_share_a_page(pages: dict[str, str]) -> None:
    for op in OPERATORS:
        if naming.public_name(op) is None:
            assert f".. _{reference.anchor(op)}:" in pages[reference.place(op)]


def test_every_name_is_in_the_list_of_names(pages: dict[str, str]) -> None:
    listed = re.findall(r"\* - ``([^`]+)``", pages["names"])
    wanted = {name for op in OPERATORS for name in (op.name, *op.aliases, naming.shown(op))}
    assert wanted == set(listed) and len(listed) == len(wanted)
    assert len({reference.anchor(op) for op in OPERATORS}) == len(OPERATORS)


def test_links_between_pages_lead_somewhere(pages: dict[str, str]) -> None:
    base = "/reference/generated/operators/"
    labels = {label for text in pages.values() for label in re.findall(r"^\.\. _([\w-]+):", text, re.M)}
    for name, text in pages.items():
        for goal in re.findall(r":doc:`[^`<]+ <([^>]+)>`", text):
            assert goal.removeprefix(base) in pages, (name, goal)
        for goal in re.findall(r":ref:`[^`<]+ <([^>]+)>`", text):
            assert goal in labels, (name, goal)


def test_every_page_is_in_a_table_of_contents(pages: dict[str, str]) -> None:
    for name in pages:
        if name.endswith("/index"):
            assert f"\n   {name}\n" in pages["index"]
        elif "/" in name:
            family, _, own = name.partition("/")
            assert f"\n   {own}\n" in pages[f"{family}/index"]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("linalg.gemm", "_linalg_gemm"), ("random.normal", "_random_normal"), ("equal", "_equal"),
        ("contrib.adamw_update", "_adamw_update"), ("zeros", "_zeros"), ("Custom", "Custom"), (None, "_plus_scalar"),
        ("sample_normal", "_sample_normal"), ("contrib.ROIAlign", "_contrib_ROIAlign"),
    ],
)  # fmt: skip
def test_the_name_on_a_page_is_that_of_programs(name: str | None, found: str) -> None:
    assert naming.public_name(operators.get(found)) == name


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name)
def test_every_signature_is_of_a_function_that_exists(op: Operator) -> None:
    lines = "\n".join(signatures(op))
    for space, name in re.findall(r"\bmx\.(nd|sym)\.([\w.]+)\(", lines):
        assert callable(naming.found(getattr(mx, space), name)), f"mx.{space}.{name}"


def test_every_kernel_is_explained() -> None:
    variants = {spec.variant for op in OPERATORS for spec in kernels.candidates(op, "cpu")}
    variants |= {spec.variant for op in OPERATORS for spec in kernels.candidates(op, "gpu")}
    assert variants <= reference.VARIANTS.keys() | {"example_native", "example_cuda"}


# ---- facts --------------------------------------------------------------------------------------


def types_of(name: str, **attrs: str) -> tuple[dict[str, str], dict[str, str]]:
    op = operators.get(name)
    return facts.element_types(op, op.Param.parse(attrs, op=name))


def test_element_types() -> None:
    assert types_of("dot") == ({"lhs": "T", "rhs": "T", "output": "T"}, {"T": "any element type"})
    assert types_of("take")[0] == {"a": "T", "indices": "U", "output": "T"}
    assert types_of("mp_sgd_update", lr="1")[0]["weight32"] == "float32"
    assert types_of("Cast", dtype="int32")[0] == {"data": "T", "output": "int32"}
    assert types_of("_div_scalar")[0]["output"] == "T, int64 where T is bool"


def test_types_that_cannot_be_computed_are_left_out() -> None:
    op = operators.get("_contrib_ROIAlign")
    known = applications.application(
        op, {"pooled_size": "(2, 2)", "spatial_scale": "1"}, [(1, 1, 4, 4), (1, 5)]
    )
    assert known is not None
    assert facts.element_types(op, known.params, known)[1] == {"T": "floating-point"}


@pytest.mark.parametrize(
    ("name", "orders"),
    [("exp", facts.MOST_ORDERS), ("dot", facts.MOST_ORDERS), ("LayerNorm", 1), ("floor", None)],
)
def test_how_often_an_operator_can_be_differentiated(name: str, orders: int | None) -> None:
    op = operators.get(name)
    p = op.Param.parse({}, op=name)
    said = " ".join(facts.gradient_facts(op, p))
    if orders is None:
        assert said == "None: its gradient is zero."
    else:
        assert facts.derivatives(op, p) == orders
        assert ("any order" if orders > 1 else "first order") in said


def test_refusals_are_the_errors_of_calls() -> None:
    op = operators.get("FullyConnected")
    known = applications.application(op, {"num_hidden": "3"}, [(2, 4)])
    assert known is not None and known.inputs["weight"] == (3, 4)
    assert facts.refusals(op, known.params, [known]) == [
        "ArgumentError: [FullyConnected] num_hidden: expected at least 1, got 0",
        "ShapeError: [FullyConnected] bias: expected shape (3,), got (4,)",
        "DTypeError: [FullyConnected] weight: expected float32, got float64; convert with astype or Cast",
    ]


def test_calls_of_an_example() -> None:
    op = operators.get("Concat")
    lines = [">>> x = mx.nd.ones((2, 1))", ">>> mx.nd.Concat(x, x, dim=1).shape", "(2, 2)"]
    (found,) = applications.applications(op, lines, [])
    assert found.settings(op) == "dim=1" and found.inputs == {"arg0": (2, 1), "arg1": (2, 1)}


@pytest.mark.long
def test_relatives_are_near() -> None:
    near = related.relatives(OPERATORS)
    assert "Deconvolution" in [op.name for op in near["Convolution"]]
    assert "log_softmax" in [op.name for op in near["softmax"]]
    assert all(op.name not in [o.name for o in near[op.name]] for op in OPERATORS)


def test_deviations_are_on_the_pages_of_their_operators(pages: dict[str, str]) -> None:
    found = differences.by_operator(ROOT)
    assert {"LeakyReLU", "_contrib_ROIAlign", "SequenceLast", "norm"} <= found.keys()
    assert "Differs from MXNet 1.9.1" in pages[reference.place(operators.get("LeakyReLU"))]


def test_tables_leave_out_empty_columns() -> None:
    assert table(("a", "b"), [("1", ""), ("2", "")])[3:] == ["   * - a", "   * - 1", "   * - 2", ""]
