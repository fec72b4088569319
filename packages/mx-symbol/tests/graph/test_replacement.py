# SPDX-License-Identifier: Apache-2.0
"""Replacing entries of a graph, natively: chains of replacements."""

from __future__ import annotations

import pytest

from mx_core.errors import PluginError
from mx_symbol import _core
from mx_symbol.graph import Entry

hashed = 0


class Hashed:
    """A node that counts how often a table is asked for its entries."""

    op = None

    def __init__(self, name, inputs=()):
        self.name, self.inputs = name, list(inputs)

    def output_name(self, index):
        return self.name

    def __hash__(self):
        global hashed
        hashed += 1
        return id(self)


def replaced(heads, mapping):
    return _core.replaced(heads, mapping, lambda node, inputs: Hashed(node.name, inputs))


def chain(n):
    """Identities of each other with a reader each, and what replaces every identity by its input."""
    entries = [Entry(Hashed("x"))]
    for i in range(n):
        entries.append(Entry(Hashed(f"identity{i}", [entries[-1]])))
    readers = [Entry(Hashed(f"reader{i}", [entry])) for i, entry in enumerate(entries[1:])]
    return entries, readers, dict(zip(entries[1:], entries[:-1], strict=True))


@pytest.mark.parametrize("order", [1, -1])
def test_chains_of_replacements_are_walked_once(order):
    global hashed
    asked = []
    for n in (500, 1000):
        entries, readers, mapping = chain(n)
        hashed = 0
        made = replaced(readers[::order], mapping)
        asked.append(hashed)
        assert all(head.node.inputs == [entries[0]] for head in made)
    assert asked[1] < 2.2 * asked[0]


@pytest.mark.parametrize("start", [0, 2, 5])
def test_a_circle_of_replacements_is_refused(start):
    entries, readers, mapping = chain(6)
    mapping[entries[0]] = entries[3]  # which leads back to it
    with pytest.raises(PluginError, match="is replaced by itself"):
        replaced([readers[start]], mapping)


def test_an_entry_that_is_replaced_by_itself_is_refused():
    x = Entry(Hashed("x"))
    with pytest.raises(PluginError, match="'x' is replaced by itself"):
        replaced([x], {x: x})
    with pytest.raises(PluginError, match="'x' is replaced by itself"):
        replaced([Entry(Hashed("reader", [x]))], {x: x})


def test_a_circle_is_refused_again_after_other_heads():
    entries, readers, mapping = chain(3)
    x, alone = Entry(Hashed("x")), Entry(Hashed("alone"))
    mapping[alone] = alone
    mapping[x] = entries[3]
    with pytest.raises(PluginError, match="'alone' is replaced by itself"):
        replaced([x, *readers, alone], mapping)
