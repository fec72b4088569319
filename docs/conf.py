# SPDX-License-Identifier: Apache-2.0
"""Sphinx settings: `nox -s docs`, or `python -m sphinx -W docs docs/_build/html` in an environment with mx."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from generate import generate  # noqa: E402
from generate.back_links import anchors, mended  # noqa: E402
from generate.text import protect  # noqa: E402

import mx  # noqa: E402

project = "mx"
copyright = "the mx contributors"
version = release = mx.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["_build", "generate"]
default_role = "code"
viewcode_line_numbers = True
smartquotes = False  # what looks like Python is Python
# docstrings state types by their short names; where several things have one name, there is no link
suppress_warnings = ["ref.python"]

myst_enable_extensions = ["deflist", "attrs_inline"]
myst_heading_anchors = 3
highlight_language = "none"

autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True  # as written: `logger=logging`, not the module with its path
autodoc_default_options = {"members": True, "ignore-module-all": True}
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

html_theme = "pydata_sphinx_theme"
html_title = f"mx {release}"
html_static_path = ["_static"]
html_css_files = ["mx.css"]
html_search_scorer = str(HERE / "search_scores.js")
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": False,
    "collapse_navigation": True,  # a page has the names of its own family only
    "secondary_sidebar_items": ["page-toc"],
    "header_links_before_dropdown": 6,
}
html_sidebars = {"index": []}


def _protect(_app: Any, what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    lines[:] = protect("\n".join(lines)).split("\n")
    if what in ("attribute", "data"):  # napoleon takes what precedes a colon of the first line for a type
        lines.insert(0, "")


def _own_module(_app: Any, module: str | None, name: str) -> str | None:
    """Where `viewcode` looks for a source: in the module that defines a name, if that is a Python file of mx."""
    try:
        home = getattr(attrgetter(name)(import_module(module or "")), "__module__", None) or ""
    except (AttributeError, ImportError, ValueError):
        return module
    found = find_spec(home) if home.startswith("mx") else None
    return home if found is not None and str(found.origin).endswith(".py") else module


def _mend_back_links(app: Any, page: str, _template: str, context: dict[str, Any], _doctree: Any) -> None:
    if page.startswith("_modules/"):
        objects = app.env.domains["py"].objects.items()
        documented = anchors((name, entry.docname) for name, entry in objects if entry.objtype != "module")
        context["body"] = mended(context["body"], page, documented)


def setup(app: Any) -> dict[str, bool]:
    """Writes the generated pages before Sphinx looks for pages."""
    app.connect("builder-inited", lambda _: generate(HERE))
    app.connect("autodoc-process-docstring", _protect, priority=100)
    app.connect("viewcode-follow-imported", _own_module)
    app.connect("html-page-context", _mend_back_links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
