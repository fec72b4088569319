# SPDX-License-Identifier: Apache-2.0
"""Links from a page of source code back to the documentation of what is defined there."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping

_BACK = re.compile(
    r'(<div class="viewcode-block" id="(?P<name>[^"]+)">\n)'
    r'<a class="viewcode-back" href="(?P<page>[^"#]+)#[^"]*">.*?</a>\n'
)


def anchors(objects: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Documented names by the page (without its ending) that has them, from pairs of a name and its page."""
    found: dict[str, list[str]] = {}
    for name, page in objects:
        found.setdefault(page, []).append(name)
    return found


def mended(body: str, place: str, documented: Mapping[str, Iterable[str]]) -> str:
    """A page of source code, with links that lead to names that there are.

    `viewcode` takes the first module under which something of a source file is documented for the module of all
    of it; a file of whose names some are documented as `mx.io.X` and others as `mx.mod.Y` has links to nowhere.

    Parameters
    ----------
    body : str
        The page's HTML.
    place : str
        Its name, `"_modules/mx_io/iterator"`.
    documented : mapping
        Names by page, from `anchors`. A link to a page that has no such name is left out.
    """

    def link(match: re.Match[str]) -> str:
        name, page = match["name"], match["page"]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(place), page.removesuffix(".html")))
        for full in documented.get(target, ()):
            if full == name or full.endswith("." + name):
                return f'{match[1]}<a class="viewcode-back" href="{page}#{full}">[docs]</a>\n'
        return match[1]

    return _BACK.sub(link, body)
