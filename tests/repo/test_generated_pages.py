# SPDX-License-Identifier: Apache-2.0
"""The pages of environment variables and commands have all of them."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

from generate import commands, settings

from mx_core import plugins

ROOT = Path(__file__).parents[2]
#: names in capitals that are attributes of a plug-in's module
ATTRIBUTES = {"MX_PLUGIN", "MX_HOOK_API"}


def test_every_variable_that_is_read_is_stated() -> None:
    read = set()
    for path in [*ROOT.glob("p*s/*/src/**/*.py"), *ROOT.glob("p*s/*/csrc/**/*.[ch]*")]:
        if path.relative_to(ROOT).parts[1] == "mx-kvstore-ray" and find_spec("mx_kvstore_ray") is None:
            continue  # its own tests look
        read |= set(re.findall(r'"(MX(?:NET)?_[A-Z0-9_]*[A-Z0-9])"', path.read_text(encoding="utf-8")))
    stated = settings.variables()
    prefixes = {name for name in read if any(known.startswith(f"{name}_") for known in stated)}
    assert read - ATTRIBUTES - prefixes - stated.keys() == set()


def test_the_page_has_every_variable() -> None:
    page = settings.page(settings.variables())
    assert all(f"| `{name}` |" in page for name in settings.variables())
    assert page.index("`MX_ENGINE_TYPE`") < page.index("`MXNET_ENGINE_TYPE`")


# ---- commands -----------------------------------------------------------------------------------


def test_the_page_has_every_command_with_its_options() -> None:
    page = commands.page()
    own = {"plugins", "ops", "doctor", "stubs"}
    for name in own | {entry.name.partition("@")[0] for entry in plugins.registry("commands").items()}:
        assert f"\n## mx {name}\n" in page
    assert "\n### mx graph show\n" in page and "--shape" in page
    assert "(cannot be loaded)" not in page


def test_lists_of_commands_are_not_cut() -> None:
    lines = [line for _, text in commands.commands() for line in text.splitlines()]
    assert [line for line in lines if line.endswith("...") and not line.startswith("Usage:")] == []
