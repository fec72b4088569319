# SPDX-License-Identifier: Apache-2.0
import sys

import pytest

from mx_core.errors import PluginError
from mx_core.plugins import discovery
from mx_core.plugins.hookspecs import HOOK_API


def test_discovery_imports_nothing(site):
    site.add("a", "raise AssertionError")
    ((record, point),) = discovery.discover()
    assert (record.name, record.state, record.distribution, record.version) == ("a", "found", "mx-a", "0.1.0")
    assert record.module == point.value and point.value not in sys.modules


def test_the_order_is_that_of_names(site):
    for name in ("m", "b", "z", "a"):
        site.add(name, "")
    assert [record.name for record, _ in discovery.discover()] == ["a", "b", "m", "z"]


@pytest.mark.parametrize("wanted", [HOOK_API, (1, 0)])
def test_hook_versions_that_fit(wanted):
    assert discovery.check_hook_api(wanted) is None


@pytest.mark.parametrize("wanted", [(2, 0), (0, 9), (1, HOOK_API[1] + 1)])
def test_hook_versions_that_do_not(wanted):
    assert str(wanted) in discovery.check_hook_api(wanted)


@pytest.mark.parametrize("wanted", [1, "1.0", (1,), ("1", "0"), None])
def test_hook_versions_are_pairs_of_integers(wanted):
    with pytest.raises(PluginError, match="pair of integers"):
        discovery.check_hook_api(wanted)


def test_an_unreadable_requirement_is_broken(site):
    site.add("odd", "", requires=("mx-core ~~ 3",))
    ((record, _),) = discovery.discover()
    assert record.state == "broken" and "mx-core ~~ 3" in record.error


def test_disabled_names(monkeypatch):
    monkeypatch.setenv("MX_DISABLE_PLUGINS", " a, mx-b ,,")
    assert discovery.disabled() == {"a", "mx-b"}


@pytest.mark.parametrize(
    "requirement", ["mx-core~={v}", "mx_core>={v}", "mx.core (=={v})", "mx-core>={v},<900"]
)
def test_this_version_satisfies_itself(site, requirement):
    site.add("a", "", requires=(requirement.format(v=discovery.__version__),))
    ((record, _),) = discovery.discover()
    assert record.state == "found"


@pytest.mark.parametrize(
    "requirement", ["mx-core~={v}.1", "mx-core!={v}", "mx-core>={v},>=900", "mx-core<{v}"]
)
def test_what_merely_looks_like_this_version_is_compared(site, requirement):
    site.add("a", "", requires=(requirement.format(v=discovery.__version__),))
    ((record, _),) = discovery.discover()
    assert record.state == "incompatible"
