# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import mx_kvstore
from mx_core import plugins
from mx_core.errors import ArgumentError, MXNetError
from mx_core.plugins import specs
from mx_kvstore import KVStoreBase, factory


@pytest.mark.parametrize(
    "name", ["local", "local_update_cpu", "local_allreduce_cpu", "device", "local_allreduce_device"]
)
def test_names_of_mxnet(name: str) -> None:
    store = mx_kvstore.create(name)
    assert (store.type, store.rank, store.num_workers) == (name, 0, 1)
    assert store.is_capable(KVStoreBase.OPTIMIZER) and not store.is_capable("compression")
    assert mx_kvstore.create(name.upper()).type == name


def test_the_package_is_imported_without_numpy_and_has_the_test_store() -> None:
    program = """
import sys, mx_kvstore
assert not {"numpy", "mx_ndarray"} & set(sys.modules), sys.modules
assert {"KVStore", "KVStoreBase", "create"} <= set(dir(mx_kvstore))
assert "teststore" in mx_kvstore.KVStoreBase.kv_registry
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ArgumentError, match="'horovod'; known: .*device, .*local"):
        mx_kvstore.create("horovod")
    with pytest.raises(ArgumentError, match="'byteps'; known: [^@]*. Use 'device', or 'dist_device_sync'"):
        mx_kvstore.create("byteps")
    with pytest.raises(ArgumentError, match="3"):
        mx_kvstore.create(3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"unknown kvstore 'devise'; .* Did you mean 'device'\?$"):
        mx_kvstore.create("devise")


def test_a_name_is_checked_without_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise AssertionError("a store was made")

    monkeypatch.setitem(KVStoreBase.kv_registry, "own", refuse)
    for name in ("local", "Device", "OWN"):
        factory.check(name)
    with pytest.raises(ArgumentError, match=r"unknown kvstore 'devise'"):
        factory.check("devise")


def test_what_is_no_store_is_no_training_s() -> None:
    for good in (None, "local", mx_kvstore.create("local")):
        factory.check(good)
    for wrong in (5, object, ["local"]):
        with pytest.raises(
            ArgumentError, match=r"^kvstore: expected the name of a store, a KVStoreBase or None"
        ):
            factory.check(wrong)  # type: ignore[arg-type]


def test_misspelt_settings_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MX_KVSTORE_ENGIN", "mpi")
    monkeypatch.setenv("MX_KVSTORE_ENGINE", "mpi")
    monkeypatch.setenv("MX_OTHER", "1")
    with pytest.warns(UserWarning) as told:
        mx_kvstore.create("local")
    assert [str(each.message) for each in told] == [
        "[kvstore.create] nothing reads the variable MX_KVSTORE_ENGIN; did you mean MX_KVSTORE_ENGINE?"
    ]
    assert told[0].filename == __file__


@pytest.mark.parametrize("call", ["broadcast", "pushpull"])
def test_what_is_not_said_otherwise_has_no_priority(call: str) -> None:
    assert inspect.signature(getattr(KVStoreBase, call)).parameters["priority"].default == 0


class TestEngines:
    """Several plug-ins may have stores of one name."""

    @pytest.fixture(autouse=True)
    def registered(self, monkeypatch: pytest.MonkeyPatch) -> None:
        registry = plugins.registry("kvstores")
        entries = {}
        for name in ("acme_sync@one", "acme_sync@Two", "acme_async@one"):
            spec = specs.FactorySpec(name, lambda wanted, name=name: (wanted, name), ())
            entries[name.lower()] = dataclasses.replace(
                registry.get("local"), name=name, value=spec, aliases=()
            )
        entries["sync_acme@one"] = entries["acme_async@one"]
        monkeypatch.setattr(registry, "_by_key", {**registry._by_key, **entries})
        monkeypatch.setattr(
            registry, "_entries", {**registry._entries, **{e.name: e for e in entries.values()}}
        )
        monkeypatch.setattr(registry, "_sorted", None)
        monkeypatch.delenv("MX_KVSTORE_ENGINE", raising=False)

    def test_the_only_one_is_taken(self) -> None:
        assert mx_kvstore.create("Acme_Async") == ("acme_async", "acme_async@one")

    def test_an_alias_is_taken(self) -> None:
        assert mx_kvstore.create("sync_acme") == ("sync_acme", "acme_async@one")

    def test_one_of_several_is_chosen(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(
            ArgumentError, match="'acme_sync': Two, one have one; choose by engine= or MX_KVSTORE_ENGINE"
        ):
            mx_kvstore.create("acme_sync")
        assert mx_kvstore.create("acme_sync", engine="one") == ("acme_sync", "acme_sync@one")
        monkeypatch.setenv("MX_KVSTORE_ENGINE", "two")
        assert mx_kvstore.create("acme_sync") == ("acme_sync", "acme_sync@Two")
        assert mx_kvstore.create("acme_sync", engine="one") == ("acme_sync", "acme_sync@one")
        assert mx_kvstore.create("local").type == "local"  # which needs no engine
        with pytest.raises(ArgumentError, match="MX_KVSTORE_ENGINE: expected one of one, got 'two'"):
            mx_kvstore.create("acme_async")
        with pytest.raises(ArgumentError, match="'local': engine: expected one of none, got 'one'"):
            mx_kvstore.create("local", engine="one")


def test_our_stores_come_through_the_hook() -> None:
    entry = plugins.registry("kvstores").get("local")
    assert entry.distribution == "mx-kvstore"


def test_a_script_may_register_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KVStoreBase, "kv_registry", {})

    @KVStoreBase.register
    class Mirror(KVStoreBase):
        def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
            value.copyto(out)

        def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
            value.copyto(out)

        type = "mirror"
        rank = 0
        num_workers = 1

    store = mx_kvstore.create("Mirror")
    assert isinstance(store, Mirror) and not store.is_capable(KVStoreBase.OPTIMIZER)
    for call in (store.set_optimizer, store.save_optimizer_states, store.load_optimizer_states):
        with pytest.raises(MXNetError, match="mirror"):
            call("x")


@pytest.mark.parametrize("missing", ["broadcast", "pushpull", "type", "rank", "num_workers"])
def test_a_class_that_lacks_a_part_makes_no_store(missing: str) -> None:
    parts = {name: None for name in ("broadcast", "pushpull", "type", "rank", "num_workers")}
    type("Whole", (KVStoreBase,), dict(parts))()
    del parts[missing]
    with pytest.raises(TypeError, match=f"'?{missing}'?$"):
        type("Half", (KVStoreBase,), parts)()


def test_a_store_of_a_plugin_is_found_by_name(tmp_path: Path) -> None:
    (tmp_path / "acme_store.py").write_text(
        "from mx_kvstore import KVStore\n"
        "def mx_register_kvstores(registry):\n"
        "    registry.add('acme', KVStore, aliases=('Acme_Sync',))\n"
        "from mx_core import hookimpl\n"
        "mx_register_kvstores = hookimpl(mx_register_kvstores)\n"
    )
    info = tmp_path / "acme_store-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-store\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[mx.plugins.v1]\nacme = acme_store\n")
    done = subprocess.run(
        [sys.executable, "-c", "import mx_kvstore; print(mx_kvstore.create('ACME_sync'))"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.strip() == "<KVStore 'acme_sync', 0 keys>", done.stderr
