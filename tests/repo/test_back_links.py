# SPDX-License-Identifier: Apache-2.0
"""Pages of source code lead back to what is documented."""

from __future__ import annotations

from generate.back_links import anchors, mended

BLOCK = """<div class="viewcode-block" id="{name}">
<a class="viewcode-back" href="../../reference/{page}.html#mx.first.{name}">[docs]</a>
"""


def test_each_name_leads_to_where_it_is_documented() -> None:
    documented = anchors(
        [("mx.io.A", "reference/io"), ("mx.io.A.next", "reference/io"), ("mx.mod.B", "reference/module")]
    )
    body = "".join(
        BLOCK.format(name=name, page=page) for name, page in (("A.next", "io"), ("B", "module"), ("A", "io"))
    )
    found = mended(body, "_modules/mx_io/parts", documented)
    assert found.count("[docs]") == 3
    for link in ("io.html#mx.io.A.next", "module.html#mx.mod.B", "io.html#mx.io.A"):
        assert f'href="../../reference/{link}"' in found


def test_what_is_documented_nowhere_has_no_link() -> None:
    documented = anchors([("mx.io.A", "reference/io")])
    found = mended(BLOCK.format(name="C", page="io") + "class C: ...", "_modules/mx_io/parts", documented)
    assert found == '<div class="viewcode-block" id="C">\nclass C: ...'
