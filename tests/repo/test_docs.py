# SPDX-License-Identifier: Apache-2.0
"""The documentation is true where a machine can tell: hooks, versions, links, files, promises."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from mx_core import operators, plugins
from mx_core.plugins import hookspecs
from mx_core.plugins.registrars import REGISTRARS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
HEADERS = ROOT / "packages" / "mx-core" / "src" / "mx_core" / "include" / "mx_core"
PAGES = sorted(
    [p for p in DOCS.rglob("*.md") if not {"_build", "generated"} & set(p.parts)]
    + list(ROOT.glob("*.md"))
    + list(ROOT.glob("p*s/*/README.md"))
)
HOOKS = sorted(name for name in vars(hookspecs) if name.startswith("mx_"))


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def identifier(path: Path) -> str:
    return str(path.relative_to(ROOT))


# ---- hooks --------------------------------------------------------------------------------------


@cache
def hook_sections() -> dict[str, str]:
    parts = re.split(r"^### (\w+)\n", text_of(DOCS / "reference" / "hooks.md"), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def call(function: object, name: str) -> str:
    """`name(a, b=1)` as the page shows it."""
    signature = inspect.signature(function)  # type: ignore[arg-type]
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values() if p.name != "self"]
    return f"{name}{signature.replace(parameters=bare, return_annotation=signature.empty)}"


def test_the_page_has_every_hook_and_no_other() -> None:
    assert sorted(hook_sections()) == HOOKS


@pytest.mark.parametrize("hook", HOOKS)
def test_the_page_has_the_arguments(hook: str) -> None:
    registrar = REGISTRARS.get(hook.removeprefix("mx_register_"))
    if registrar is None:
        expected = call(getattr(hookspecs, hook), hook)
    else:
        expected = call(registrar.add, "registry.add")  # type: ignore[attr-defined]
    assert f"```python\n{expected.replace(chr(39), chr(34))}\n```" in hook_sections()[hook]


# ---- C tables -----------------------------------------------------------------------------------


def versions() -> dict[str, str]:
    """Interface -> major.minor of the headers."""
    found: dict[str, dict[str, str]] = {}
    for path in HEADERS.glob("*.h"):
        for name, which, number in re.findall(r"#define MX_([A-Z]+)_(MAJOR|MINOR) (\d+)", text_of(path)):
            found.setdefault(name.lower(), {})[which] = number
    return {name: f"{parts['MAJOR']}.{parts['MINOR']}" for name, parts in found.items()}


def test_the_page_has_the_versions_of_the_headers() -> None:
    page = text_of(DOCS / "reference" / "abi.md")
    rows = re.findall(r"^\| (\w+) \| `([\w.]+)` \| ([^|]*) \| (\d+\.\d+) \|", page, re.M)
    assert {name: version for name, _, _, version in rows} == versions()
    for _, header, capsules, _ in rows:
        header_text = text_of(HEADERS / header)
        for capsule in re.findall(r"`(mx\.[\w.]+)`", capsules):
            assert f'"{capsule}"' in header_text


def test_the_page_has_every_slot() -> None:
    page = text_of(DOCS / "reference" / "abi.md")
    for path in HEADERS.glob("*.h"):
        for body in re.findall(r"typedef struct mx_\w+_api \{(.*?)\} mx_\w+_api;", text_of(path), re.S):
            slots = re.findall(r"\(\*(\w+)\)\(", body)
            slots = [slot for slot in slots if slot != "deleter"]
            assert slots
            for slot in slots:
                assert f"`{slot}`" in page, f"{path.name}: {slot}"


# ---- links and files ----------------------------------------------------------------------------


def anchors(path: Path) -> set[str]:
    """Anchors of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text_of(path), flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@cache
def generator(name: str) -> ModuleType:
    """A module of docs/generate."""
    return importlib.import_module(f"generate.{name}")


def written() -> set[str]:
    """Stems of the generated pages and pictures that may be linked to."""
    return {"index", *generator("readmes").pages(ROOT).values(), *generator("plans").NAMES}


def test_links_of_generated_pages_lead_to_pages() -> None:
    target = DOCS / "reference" / "generated" / "readmes"
    readmes = generator("readmes")
    for source, name in readmes.pages(ROOT).items():
        text = readmes.linked(text_of(source), source, target / f"{name}.md", ROOT)
        for goal in re.findall(r"\]\(([^)#\s]+)[^)]*\)", re.sub(r"```.*?```", "", text, flags=re.S)):
            if not re.match(r"[a-z]+:", goal):
                path = (target / goal).resolve()
                assert path.exists() or (path.parent == target and path.stem in written()), (source, goal)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("smooth_l1", "0.5 · scalar · scalar · data² if |data| < 1 / (scalar · scalar) else |data| − 0.5 / (scalar · scalar)"),
        ("_rpower_scalar", "scalar ^ data"), ("log1p", "ln(1 + data)"), ("add_n", "arg0 + arg1 + arg2"),
        ("pseudo_huber", "data · data / (1 + √(1 + (data / delta)²))"), ("sigmoid", "1 / (1 + exp(−data))"),
        ("LeakyReLU", "data if data > 0 else slope · data (act_type=leaky)"), ("dot", None),
    ],
)  # fmt: skip
def test_formulas_of_elementwise_operators(name: str, expected: str | None) -> None:
    assert generator("formulas").formula(operators.get(name), []) == expected


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        ("`a*b` times *c and x_ or |d|", r"``a*b`` times \*c and x\_ or \|d\|"),
        ("Raises\n------\nPluginError  none is\nMXNetError  other", "Raises\n------\nPluginError\n    none is\nMXNetError\n    other"),
        ("Text  with two spaces", "Text  with two spaces"),
    ],
)  # fmt: skip
def test_docstrings_become_markup(docstring: str, expected: str) -> None:
    assert generator("text").protect(docstring) == expected


@pytest.mark.parametrize("path", PAGES, ids=identifier)
def test_relative_links_lead_somewhere(path: Path) -> None:
    prose = re.sub(r"```.*?```", "", text_of(path), flags=re.S)
    for goal in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", goal):
            continue
        file, _, anchor = goal.partition("#")
        target = (path.parent / file).resolve() if file else path
        if "generated" in target.parts:  # written when the documentation is built
            assert target.stem in written(), f"{path}: {goal}"
            continue
        assert target.exists(), f"{path}: {goal}"
        assert not anchor or anchor in anchors(target), f"{path}: {goal}"


@pytest.mark.parametrize("path", sorted((DOCS / "guides").glob("*.md")), ids=identifier)
def test_a_guide_says_how_the_pages_it_links_to_are_built(path: Path) -> None:
    text = text_of(path)
    assert "](../reference/generated/" not in text or "`nox -s docs` builds" in text


def test_every_page_of_a_folder_is_in_its_toctree() -> None:
    for folder in ("architecture", "decisions"):
        index = text_of(DOCS / folder / "index.md")
        for path in (DOCS / folder).glob("*.md"):
            assert path.stem == "index" or f"\n{path.stem}\n" in index, path
    packages = text_of(DOCS / "packages.md")
    for path in ROOT.glob("p*s/*/README.md"):
        assert f"/{path.parent.name}\n" in packages, path


def test_the_page_on_graphs_has_every_pass_under_its_stage() -> None:
    rows = dict(
        re.findall(r"^\| `(\w+)` \| .* \| (.+) \|$", text_of(DOCS / "architecture" / "graph.md"), re.M)
    )
    listed = {(name, stage) for stage, row in rows.items() for name in re.findall(r"`([\w-]+)`", row)}
    assert listed == {(entry.name, entry.value.stage) for entry in plugins.registry("graph_passes").items()}


def test_no_text_installs_one_of_our_names_from_an_index() -> None:
    """Nobody has registered these names on the public index, so a stranger's package would be installed."""
    own = "|".join(sorted((p.parent.name for p in ROOT.glob("p*s/*/pyproject.toml")), key=len, reverse=True))
    asks = re.compile(rf"pip install (?:-\S+ )*['\"]?(?:{own})(?![\w./-])")
    found = [identifier(path) for path in [*PAGES, *sources()] if asks.search(text_of(path))]
    assert found == []


def test_the_readme_counts_the_networks_of_the_table() -> None:
    counts = (
        "no",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
    )
    table = text_of(DOCS / "reference" / "performance.md").partition("<!-- end of summary -->")[2]
    table = table.partition("| network, batch")[2].partition("\n\n")[0]
    networks = {re.split("[,/]", row)[0] for row in re.findall(r"^\| ([^|*]+?[,/] ?\d[^|]*)\|", table, re.M)}
    assert f"compares {counts[len(networks)]} networks" in text_of(ROOT / "README.md"), networks


@pytest.mark.parametrize("path", PAGES, ids=identifier)
def test_lines_of_prose_have_at_most_120_columns(path: Path) -> None:
    prose = re.sub(r"^( *)```.*?^ *```$", "", text_of(path), flags=re.S | re.M)
    links = re.compile(r"\]\([^)]*\)")
    long = [line for line in prose.splitlines() if len(line) > 120 and not line.startswith("|")]
    assert [line for line in long if not links.search(line)] == []


# ---- promises of SECURITY.md --------------------------------------------------------------------


def sources() -> list[Path]:
    return sorted(p for p in ROOT.glob("p*s/*/src/**/*.py"))


@pytest.mark.long
def test_no_package_can_open_a_connection() -> None:
    network = {"socket", "socketserver", "ssl", "http", "urllib", "ftplib", "smtplib", "xmlrpc", "requests",
               "aiohttp", "httpx", "asyncio"}  # fmt: skip
    exempt = ("mx-kvstore-mpi", "mx-kvstore-ray")  # SECURITY.md has a paragraph of each
    for path in sources():
        if path.relative_to(ROOT).parts[1] in exempt:
            continue
        for node in ast.walk(ast.parse(text_of(path))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not {name.split(".")[0] for name in names} & network, path


def test_no_loader_unpickles() -> None:
    unpickling = re.compile(
        r"pickle\.loads?\(|Unpickler|allow_pickle=True|\b(?:marshal|shelve|dill)\b|\beval\(|\bexec\("
    )
    found = {identifier(p) for p in sources() if unpickling.search(re.sub(r"def eval\(", "", text_of(p)))}
    # It reads what a process that the same program has forked sends through a pipe of their own.
    assert found == {"packages/mx-gluon/src/mx_gluon/data/batches.py"}
