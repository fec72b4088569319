# SPDX-License-Identifier: Apache-2.0
import itertools
import json
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest

import mx_core
from mx_core import plugins
from mx_core.errors import NoKernelError, PluginError, PluginWarning

GOOD = """
    import mx_core

    MX_PLUGIN = mx_core.PluginInfo(summary="two stores", url="https://example.org")
    MX_HOOK_API = (1, 0)

    @mx_core.hookimpl
    def mx_register_kvstores(registry):
        registry.add("alpha", "json:loads", aliases=("first",))
        registry.add("beta", dict)
"""
HALF_WAY = """
    import mx_core

    @mx_core.hookimpl
    def mx_register_engines(registry):
        registry.add("HalfEngine", dict)

    @mx_core.hookimpl
    def mx_register_kvstores(registry):
        registry.add("halfway", dict)
        raise RuntimeError("driver too old")
"""
UNKNOWN = """
    import mx_core

    @mx_core.hookimpl
    def mx_register_teapots(registry):
        registry.add("teapot")
"""


@pytest.fixture
def six(site, engine_source):
    """Two good plug-ins and four that cannot be used."""
    site.add("good", GOOD)
    site.add("engine", engine_source("PlainEngine"))
    site.add("importless", "import no_such_module")
    site.add("future", "MX_HOOK_API = (2, 0)")
    site.add("raises", HALF_WAY)
    site.add("unknown", UNKNOWN)
    return site


def test_each_plugin_has_its_state_and_the_good_ones_work(six):
    with pytest.warns(PluginWarning) as caught:
        states = {record.name: record.state for record in plugins.plugins()}
    assert states == {
        "engine": "loaded",
        "future": "incompatible",
        "good": "loaded",
        "importless": "broken",
        "raises": "broken",
        "unknown": "broken",
    }
    assert plugins.registry("kvstores").names() == ("alpha", "beta")
    assert plugins.registry("engines").names() == ("PlainEngine",)
    messages = sorted(str(w.message) for w in caught)
    assert len(messages) == 4
    for name, message in zip(("future", "importless", "raises", "unknown"), messages, strict=True):
        assert name in message and f"mx plugins show {name}" in message


def test_warnings_come_once(six):
    with pytest.warns(PluginWarning):
        plugins.plugins()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plugins.plugins()
        plugins.registry("engines")


def test_a_misspelt_hook_gets_the_closest_name(site, quiet):
    site.add("misspelt", "def mx_register_operator(registry): pass\n")
    (record,) = [record for record in plugins.plugins() if record.name == "misspelt"]
    assert record.error is not None
    assert record.error.endswith("did you mean 'mx_register_operators'?")


def test_the_record_explains_the_failure(six, quiet):
    records = {record.name: record for record in plugins.plugins()}
    assert "No module named 'no_such_module'" in records["importless"].error
    assert "import no_such_module" in records["importless"].traceback
    assert "hook API (2, 0)" in records["future"].error
    assert "RuntimeError: driver too old" in records["raises"].error
    assert "raised in mx_register_kvstores of plug-in 'raises'" in records["raises"].traceback
    assert "unknown hook 'mx_register_teapots'" in records["unknown"].error
    assert records["good"].info.summary == "two stores"


def test_a_plugin_that_raises_half_way_leaves_nothing_behind(six, quiet):
    assert "HalfEngine" not in plugins.registry("engines")
    assert "halfway" not in plugins.registry("kvstores")


def test_entries_know_who_registered_them_and_where(six, quiet):
    entry = plugins.registry("kvstores").get("first")
    assert (entry.name, entry.plugin, entry.distribution, entry.version) == (
        "alpha", "good", "mx-good", "0.1.0",
    )  # fmt: skip
    path, line = entry.origin.rsplit(":", 1)
    assert 'registry.add("alpha"' in Path(path).read_text().splitlines()[int(line) - 1]
    assert entry.value.make("[1, 2]") == [1, 2]


def test_a_missing_name_tells_of_the_plugin_that_would_have_brought_it(six, quiet):
    with pytest.raises(PluginError, match=r"'halfway' is not among .*alpha, beta") as caught:
        plugins.registry("kvstores").get("halfway")
    text = str(caught.value)
    assert "Plug-in 'raises' (mx-raises 0.1.0) was not loaded: RuntimeError: driver too old" in text
    assert "importless" not in text


def test_a_missing_name_tells_of_plugins_of_a_like_name_and_counts_the_others(six, quiet):
    assert plugins.missing_hint("kvstores", "gamma") == "4 plug-ins did not load; see: mx plugins."
    hint = plugins.missing_hint("kvstores", "importless_gamma")
    assert hint.startswith("Plug-in 'importless' (mx-importless 0.1.0) was not loaded: ModuleNotFoundError")
    assert hint.endswith(" 3 more plug-ins did not load; see: mx plugins.") and "'raises'" not in hint


def test_a_missing_name_tells_of_the_plugin_whose_modules_have_it_as_a_text(site, quiet):
    site.add("acme", "raise RuntimeError('no driver')\nNAME = 'quadratic'")
    site.add("other", "raise RuntimeError('no driver')\nNAME = 'quadratics'")
    hint = plugins.missing_hint("operators", "quadratic")
    assert hint.startswith("Plug-in 'acme' (mx-acme 0.1.0) was not loaded: RuntimeError: no driver.")
    assert hint.endswith(" 1 more plug-in did not load; see: mx plugins.")


def test_a_missing_name_tells_of_a_few_plugins_only(site, quiet):
    for i in range(8):
        site.add(f"acme{i}", "import no_such_module", distribution=f"acme-{i}")
    hint = plugins.missing_hint("kvstores", "acme_store")
    assert hint.count("was not loaded") == 3
    assert hint.endswith(" 5 more plug-ins did not load; see: mx plugins.")


def test_a_warning_is_attributed_to_the_line_of_the_plugin_that_failed(six):
    with pytest.warns(PluginWarning) as caught:
        plugins.plugins()
    found = {str(w.message).split("'")[1]: (w.filename, w.lineno) for w in caught}
    for name, line in (
        ("importless", "import no_such_module"),
        ("raises", 'raise RuntimeError("driver too old")'),
    ):
        path, number = found[name]
        assert line in Path(path).read_text().splitlines()[number - 1]
    assert found["future"][0] == found["unknown"][0] == __file__  # no line of theirs failed: that which asked


def test_close_names_are_suggested(six, quiet):
    with pytest.raises(PluginError, match="Did you mean 'alpha'"):
        plugins.registry("kvstores").get("alphq")


def test_strict_mode_raises_the_cause(six, monkeypatch):
    monkeypatch.setenv("MX_STRICT_PLUGINS", "1")
    with pytest.raises(PluginError, match="future"):
        plugins.plugins()
    monkeypatch.setenv("MX_DISABLE_PLUGINS", "future,raises,unknown")
    with pytest.raises(PluginError, match="importless") as caught:
        plugins.plugins()
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_disabled_plugins_are_blocked_not_imported_and_not_warned_of(six, monkeypatch):
    monkeypatch.setenv("MX_DISABLE_PLUGINS", " future , mx-raises,unknown,importless")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        states = {record.name: record.state for record in plugins.plugins()}
    assert states["raises"] == states["importless"] == "blocked"
    assert "fake_mx_raises_raises" not in sys.modules
    assert "MX_DISABLE_PLUGINS" in plugins.missing_hint("kvstores", "halfway")


@pytest.mark.parametrize("order", list(itertools.permutations("abc"))[:4])
def test_a_duplicate_names_both_sources_whatever_the_order_of_installation(site, quiet, order):
    source = GOOD.replace('"alpha"', '"{own}"')
    for position, name in enumerate(order):
        text = source.replace("{own}", f"own-{name}").replace("first", f"alias-{name}")
        site.add(name, text, folder=f"{position}")
        sys.path.append(str(site.path / f"{position}"))
    records = plugins.plugins()
    assert [record.state for record in records] == ["loaded", "broken", "broken"]
    error = records[1].error
    for text in ("'beta'", "plug-in 'a' (mx-a 0.1.0)", "plug-in 'b' (mx-b 0.1.0)", ".py:"):
        assert text in error
    assert plugins.registry("kvstores").names() == ("beta", "own-a")


def test_two_distributions_with_one_plugin_name(site, quiet):
    site.add("store", GOOD, distribution="acme-one")
    site.add("store", GOOD, distribution="acme-two")
    first, second = plugins.plugins()
    assert (first.state, second.state) == ("loaded", "broken")
    assert "acme-one" in second.error


def test_a_distribution_found_twice_counts_once(site):
    site.add("good", GOOD)
    site.add("good", GOOD, folder="again")
    sys.path.append(str(site.path / "again"))
    assert [record.state for record in plugins.plugins()] == ["loaded"]


def test_a_requirement_on_another_core_is_incompatible(site, quiet):
    site.add("old", GOOD, requires=("mx_core<0.0.5",))
    site.add("new", GOOD, requires=("mx-core>=900", "numpy"))
    site.add("fits", GOOD, requires=("mx.core>=0.0.1", 'mx-core>=900; extra == "test"'))
    records = {record.name: record for record in plugins.plugins()}
    assert records["old"].state == records["new"].state == "incompatible"
    assert "needs mx-core>=900, installed is" in records["new"].error
    assert records["fits"].state == "loaded"
    assert "fake_mx_new_new" not in sys.modules


def test_a_plugin_for_other_hooks_is_listed(site, quiet):
    site.add("later", GOOD, group="mx.plugins.v2")
    (record,) = plugins.plugins()
    assert record.state == "incompatible" and "mx.plugins.v2" in record.error


def test_undecorated_functions_are_hooks_and_misspelt_ones_are_found(site, quiet):
    site.add("plain", "def mx_register_kvstores(registry):\n    registry.add('plain', dict)\n")
    site.add("typo", "def mx_register_kvstore(registry):\n    registry.add('typo', dict)\n")
    states = {record.name: record.state for record in plugins.plugins()}
    assert states == {"plain": "loaded", "typo": "broken"}
    assert plugins.registry("kvstores").names() == ("plain",)


def test_wrong_arguments_of_a_hook_are_found(site, quiet):
    site.add("odd", "def mx_register_kvstores(registry, teapot):\n    pass\n")
    (record,) = plugins.plugins()
    assert record.state == "broken" and "teapot" in record.error


@pytest.mark.parametrize("source", ["import sys; sys.exit(3)", "raise SystemExit"])
def test_a_plugin_cannot_end_the_program(site, quiet, source):
    site.add("exits", source)
    assert plugins.plugins()[0].state == "broken"


def test_asking_while_being_loaded_is_refused_with_the_cure(site, quiet):
    site.add("eager", "from mx_core import plugins\nplugins.registry('kvstores')\n")
    (record,) = plugins.plugins()
    assert record.state == "broken" and "module:attribute" in record.error


def test_unknown_kind(site):
    with pytest.raises(PluginError, match="unknown registry 'teapots'.*kvstores"):
        plugins.registry("teapots")


def test_all_threads_see_one_loading(site):
    source = (
        "import time; time.sleep(0.1)\nimport mx_core; mx_core.loads = getattr(mx_core, 'loads', 0) + 1\n"
    )
    site.add("slow", source)
    seen = []
    threads = [threading.Thread(target=lambda: seen.append(plugins.plugins())) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    try:
        assert len(seen) == 6 and all(records is seen[0] for records in seen)
        assert mx_core.loads == 1
    finally:
        del mx_core.loads


def test_select_kernel_may_refuse_a_call(site):
    site.add("policy", "from mx_core.errors import NoKernelError\n"
             "def mx_select_kernel(op):\n    raise NoKernelError('not on Sundays')\n")  # fmt: skip
    with pytest.raises(NoKernelError, match="not on Sundays"):
        plugins.select_kernel(None, None, ["a"])


def test_select_kernel_asks_the_hook(site):
    site.add("none", GOOD)
    assert plugins.select_kernel(None, None, ["a", "b"]) is None
    site.add("policy", "def mx_select_kernel(candidates):\n    return candidates[-1]\n")
    assert plugins.select_kernel(None, None, ["a", "b"]) == "b"


def test_read_graph_asks_the_hook(site):
    site.add("none", GOOD)
    with pytest.raises(PluginError, match="mx-symbol"):
        plugins.read_graph("{}")
    plugins.reset()
    site.add("reader", "def mx_read_graph(graph):\n    return 'symbol of ' + graph\n")
    assert plugins.read_graph("{}") == "symbol of {}"


def test_diagnostics_survive_a_hook_that_fails(site):
    site.add("fine", "def mx_diagnostics():\n    return {'driver': 12}\n")
    site.add("sick", "def mx_diagnostics():\n    raise OSError('no driver')\n")
    assert plugins.diagnostics() == {"fine": {"driver": "12"}, "sick": {"error": "OSError: no driver"}}


def test_importing_core_loads_neither_plugins_nor_numpy():
    code = (
        "import sys, json, mx_core; mx_core.Context; mx_core.hookimpl; from mx_core import plugins, services;"
        "print(json.dumps([plugins.loaded._state is None, 'numpy' in sys.modules, 'click' in sys.modules]))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(out.stdout) == [True, False, False]


def test_a_child_does_not_wait_for_what_another_thread_was_loading(monkeypatch):
    from mx_core.plugins import loaded

    monkeypatch.setattr(loaded, "_loading", object())
    pid = os.fork()
    if pid == 0:
        os._exit(0 if loaded._loading is None else 1)
    assert os.waitpid(pid, 0)[1] == 0
