# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_core.errors import PluginError
from mx_core.plugins.registries import Provenance, Registry, Transaction

ACME = Provenance("acme", "acme-mx", "1.2")


def transaction(*names, kind="kvstores", source=ACME):
    made = Transaction(source)
    for name in names:
        made.stage(kind, name, object(), (), f"{source.plugin}.py:1")
    return made


def test_names_are_sorted_and_found_by_alias():
    registry = Registry("kvstores")
    made = Transaction(ACME)
    made.stage("kvstores", "local", 1, ("device",), "a.py:3")
    made.stage("kvstores", "dist", 2, (), "a.py:4")
    made.commit({"kvstores": registry})
    assert registry.names() == ("dist", "local") == tuple(registry)
    assert registry.get("device").name == "local" and "device" in registry
    assert [entry.value for entry in registry.items()] == [2, 1] and len(registry) == 2


def test_entries_are_sorted_again_only_when_there_are_others():
    registry = Registry("kvstores")
    transaction("b").commit({"kvstores": registry})
    known = registry.items()
    assert registry.items() is known
    transaction("a").commit({"kvstores": registry})
    assert [entry.name for entry in registry.items()] == ["a", "b"]


def test_optimizers_and_stores_are_found_in_any_case_and_codecs_are_not():
    for kind, found in (("optimizers", True), ("kvstores", True), ("codecs", False)):
        registry = Registry(kind)
        transaction("SGD", kind=kind).commit({kind: registry})
        assert ("sgd" in registry) is found
    assert "SGD" in registry


def test_a_duplicate_leaves_the_registry_as_it_was():
    registry = Registry("kvstores")
    transaction("a", "b").commit({"kvstores": registry})
    other = Provenance("other", "other-mx", "3")
    with pytest.raises(PluginError) as caught:
        transaction("c", "b", source=other).commit({"kvstores": registry})
    text = str(caught.value)
    for part in ("'b'", "plug-in 'acme' (acme-mx 1.2) at acme.py:1", "other.py:1",
                 "MX_DISABLE_PLUGINS=acme or =other"):  # fmt: skip
        assert part in text
    assert registry.names() == ("a", "b")


def test_nobody_is_told_to_leave_out_what_is_built_in():
    registry = Registry("operators")
    transaction("tanh", kind="operators", source=Provenance("operators", "mx-operators", "1")).commit(
        {"operators": registry}
    )
    with pytest.raises(PluginError, match="with MX_DISABLE_PLUGINS=acme$"):
        transaction("tanh", kind="operators").commit({"operators": registry})


def test_one_plugin_cannot_register_a_name_twice():
    registry = Registry("kvstores")
    with pytest.raises(PluginError, match="'a' is registered by"):
        transaction("a", "a").commit({"kvstores": registry})
    assert len(registry) == 0


@pytest.mark.parametrize("name", ["", None, 3])
def test_names_are_texts(name):
    with pytest.raises(PluginError, match="non-empty name"):
        transaction(name)


@settings(deadline=None)
@given(st.lists(st.lists(st.sampled_from("abcdef"), max_size=4), max_size=6))
def test_a_transaction_commits_all_or_nothing(batches):
    registry = Registry("kvstores")
    model = set()
    for batch in batches:
        fits = len(set(batch)) == len(batch) and not model & set(batch)
        try:
            transaction(*batch).commit({"kvstores": registry})
            assert fits
            model |= set(batch)
        except PluginError:
            assert not fits
        assert set(registry.names()) == model
