# SPDX-License-Identifier: Apache-2.0
"""What the documentation names in backquotes exists: files, folders, modules, what is in them, names of C, hooks."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

from mx_core.plugins import hookspecs

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
HEADERS = ROOT / "packages" / "mx-core" / "src" / "mx_core" / "include" / "mx_core"
PAGES = sorted(
    [p for p in DOCS.rglob("*.md") if not {"_build", "generated"} & set(p.parts)]
    + list(ROOT.glob("*.md"))
    + list(ROOT.glob("p*s/*/README.md"))
)
ENDS = "py pyi cc cu h hpp md json toml svg txt yml yaml html so rec idx lst npz params"
FILE = re.compile(rf"[\w.\-*]+\.(?:{ENDS.replace(' ', '|')})")
#: files and folders that a user or a command makes, or that are another project's
MADE = {
    "symbol.json", "prefix-symbol.json", "name-symbol.json", "model-symbol.json", "name-0000.params",
    "prefix-0001.params", "model-0010.params", "profile.json", "libmxnet.so", "runs/digits", "dist", "dist/*.whl",
    "docs/_build/html", "lib/fallback", "docs/reference/generated", "reference/generated",
    ".nox/wheelhouse/PYTHON/wheels/NAME-FINGERPRINT",
}  # fmt: skip
#: modules of others, examples of a user's, and what says itself that it is not here
FOREIGN = {"mx_example", "mx_tiny_engine", "mx.io.Squares", "mx.nd.sparse"}


@cache
def known() -> frozenset[str]:
    """Every file and folder of the repository, and every tail of its path."""
    found = set()
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [
            name for name in folders if name not in {".git", ".nox", ".venv", "_build", "build", "generated"}
        ]
        for name in [*names, *folders]:
            parts = Path(folder, name).relative_to(ROOT).parts
            found |= {"/".join(parts[i:]) for i in range(len(parts))}
    return frozenset(found)


@cache
def words_of_c() -> frozenset[str]:
    """Names in the headers that plug-ins see, and those of the tables in capsules and of entry points."""
    texts = [path.read_text("utf-8") for path in HEADERS.rglob("*.h*")]
    names = {name for text in texts for name in re.findall(r"\bmx_\w+", text)}
    tables = {name for text in texts for name in re.findall(r'"(mx\.\w+\.v1)"', text)}
    return frozenset(names | tables | {"mx.plugins.v1"})


@cache
def absent() -> frozenset[str]:
    """MXNet's names of which the page for those who come from it says that they are not here."""
    found: dict[str, dict[str, str]] = json.loads(
        (ROOT / "packages/mx/src/mx/absent.json").read_text("utf-8")
    )
    return frozenset(f"{module}.{name}" for module, names in found.items() for name in names)


@cache
def resolves(name: str) -> bool:
    """Whether a dotted name is a module, or in one."""
    parts = name.split(".")
    for i in range(len(parts), 0, -1):
        try:
            place: object = importlib.import_module(".".join(parts[:i]))
        except ImportError:
            continue
        for attribute in parts[i:]:
            if not hasattr(place, attribute):
                return False
            place = getattr(place, attribute)
        return True
    return False


def is_place(word: str) -> bool:
    """Whether a path is one of the repository's, or none that could be."""
    path = word.rstrip("/")
    if path.startswith("/") or re.fullmatch(r"\.\w+", path) or path in MADE:
        return True  # a place of the system, the end of a file's name
    return any(fnmatch(each, path) for each in known()) if "*" in path else path in known()


def is_name(word: str) -> bool:
    """Whether a name that begins with mx is there, or said not to be."""
    if word in words_of_c() or word in vars(hookspecs) or word in FOREIGN:
        return True
    if any(name == word or name.startswith(f"{word}.") for name in absent()):
        return True
    first, _, rest = word.partition(".")
    if rest and first in words_of_c() and importlib.util.find_spec(first) is None:  # a member of a struct
        return any(re.search(rf"\b{rest}\b", path.read_text("utf-8")) for path in HEADERS.glob("*.h"))
    return re.search(r"\.NAME$", word) is not None or resolves(word)


def wrong(text: str) -> Iterator[str]:
    """Words in backquotes that name what does not exist."""
    for span in set(re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.S))):
        for word in span.split():
            path = re.fullmatch(r"[\w.\-*/]+", word)
            ours = re.match(r"(packages|plugins|docs|tests|tools)/", word)
            if path and (FILE.fullmatch(word) or ours or ("/" in word and " " not in span)):
                if not is_place(word):
                    yield word
        name = re.match(r"(mx(?:_[a-z]\w*)?(?:\.\w+)+|mx_[a-z]\w+)(?:\(.*\))?$", span)
        if name and not FILE.fullmatch(span) and not is_name(name[1]):
            yield name[1]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_named_exists(path: Path) -> None:
    assert not sorted(wrong(path.read_text("utf-8")))


@pytest.mark.parametrize(
    "word",
    [
        "packages/mx-core/src/gone.py", "gone.py", "docs/gone/", "csrc/gone", "tests/gone_*.py", "mx_gone", "mx_core.gone",
        "mx_core.dtypes.gone()", "mx.nd.gone", "mx.gone.v1", "mx_tensor.gone", "python tools/gone.py --all", "mx_register_gone",
    ],
)  # fmt: skip
def test_what_does_not_exist_is_found(word: str) -> None:
    assert len(list(wrong(f"It is `{word}`, and `mx.nd.ones(shape)` is in `mx_ndarray`."))) == 1
