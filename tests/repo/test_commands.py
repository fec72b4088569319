# SPDX-License-Identifier: Apache-2.0
"""Commands that texts tell readers to type exist, with their options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from mx_core.cli import cli

ROOT = Path(__file__).parents[2]
TEXTS = [
    *ROOT.glob("*.md"), *ROOT.glob("p*s/*/README.md"), ROOT / "docs" / "index.md",
    *(path for folder in ("guides", "architecture", "decisions") for path in (ROOT / "docs" / folder).glob("*.md")),
    *(ROOT / "docs" / "reference").glob("*.md"),
]  # fmt: skip
#: text in backquotes, and lines of blocks that a shell reads
QUOTED = re.compile(r"`([^`\n]+)`")
BLOCK = re.compile(r"^```(?:sh|console|text|bash)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def typed(program: str) -> list[list[str]]:
    """The words after `program` of each command in the texts, once."""
    found = {tuple(words) for path in TEXTS for words in commands(path.read_text(), program)}
    return sorted(list(words) for words in found)


def commands(text: str, program: str) -> Iterator[list[str]]:
    """The words after `program` of each command in a text."""
    lines = [line.removeprefix("$ ") for block in BLOCK.findall(text) for line in block.splitlines()]
    for line in (*QUOTED.findall(text), *lines):
        for command in line.split("&&"):
            if command.strip().startswith(f"{program} "):
                yield shlex.split(command, comments=True)[1:]


@pytest.mark.parametrize("words", typed("mx"), ids=" ".join)
def test_the_command_has_it(words: list[str]) -> None:
    command: click.Command = cli
    context = click.Context(cli, info_name="mx")
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        _, found, words = command.resolve_command(context, list(words))
        assert found is not None
        context, command = click.Context(found, info_name=found.name, parent=context), found
    options = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    assert {word for word in words if re.match("--?[a-z]", word)} <= {*options, "--help"}


@pytest.mark.parametrize("words", typed("nox"), ids=" ".join)
def test_nox_has_the_sessions(words: list[str]) -> None:
    text = (ROOT / "noxfile.py").read_text()
    sessions = set(re.findall(r"^@nox\.session.*\ndef (\w+)\(", text, re.MULTILINE))
    sessions |= {f"tests-{version}" for version in re.findall(r'"(3\.\d+)"', text)}
    names = words[1 : words.index("--") if "--" in words else None]
    assert words[0] in ("-s", "-l")
    assert {name for name in names if name != "…"} <= sessions


def test_commands_are_found_in_texts() -> None:
    text = "Run `mx doctor --json` or\n```sh\n$ nox -s docs && mx ops\nnox -s tests -- -k x  # some\n```\n"
    assert list(commands(text, "mx")) == [["doctor", "--json"], ["ops"]]
    assert list(commands(text, "nox")) == [["-s", "docs"], ["-s", "tests", "--", "-k", "x"]]
