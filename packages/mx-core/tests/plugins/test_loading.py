# SPDX-License-Identifier: Apache-2.0
import pytest

from mx_core import plugins


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("MX_PLUGIN = 'a text'", "expected mx_core.PluginInfo, got 'a text'"),
        ("MX_HOOK_API = 'one'", "expected a pair of integers, got 'one'"),
        ("def mx_register_engines(registry): registry.add('E')", "missing 1 required positional argument"),
        ("def mx_register_engines(registry): registry.add('E', 3)", "expected a callable or"),
        ("def mx_register_engines(registry): 1 / 0", "ZeroDivisionError"),
        ("def mx_register_engines(registry): raise SystemExit", "ends the program"),
    ],
)
def test_what_is_wrong_is_said(site, quiet, source, error):
    site.add("odd", source)
    (record,) = plugins.plugins()
    assert record.state == "broken" and error in record.error


def test_imported_functions_and_classes_are_no_hooks(site):
    site.add(
        "plain",
        "from mx_core.plugins.hookspecs import mx_shutdown, mx_register_engines\nclass mx_thing: pass\n",
    )
    (record,) = plugins.plugins()
    assert record.state == "loaded" and record.hooks == ()


def test_an_implementation_may_take_fewer_arguments(site):
    site.add("brief", "def mx_select_kernel(op):\n    return op\n\ndef mx_register_engines(): pass\n")
    assert plugins.plugins()[0].state == "loaded"
    assert plugins.select_kernel("chosen", None, ("chosen",)) == "chosen"


def test_a_hook_of_a_failed_plugin_is_never_called(site, quiet):
    site.add("odd", "def mx_select_kernel(op): return op\ndef mx_register_kvstores(registry): 1 / 0\n")
    assert plugins.select_kernel("chosen", None, ()) is None


def test_the_decorator_can_name_the_hook(site):
    source = """
        import mx_core

        @mx_core.hookimpl(specname="mx_register_kvstores")
        def stores(registry):
            registry.add("s", dict)
    """
    site.add("named", source)
    assert plugins.registry("kvstores").names() == ("s",)
