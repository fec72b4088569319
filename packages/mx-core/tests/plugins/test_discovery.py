# SPDX-License-Identifier: Apache-2.0
import re
import sys
import zipfile

import pytest

from mx_core import plugins
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


def wheel(path, damaged=""):
    """A wheel of a plug-in `zipped`, with one damaged file."""
    info = "acme_zipped-1.0.dist-info"
    files = {
        "acme_zipped.py": "def mx_diagnostics():\n    return {}\n" * 20,
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: acme-zipped\nVersion: 1.0\n",
        f"{info}/entry_points.txt": "[mx.plugins.v1]\nzipped = acme_zipped\n",
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        places = {
            e.filename: (e.header_offset + 30 + len(e.filename), e.compress_size) for e in archive.infolist()
        }
    if damaged:
        begin, size = places[damaged.format(info=info)]
        data = bytearray(path.read_bytes())
        for i in range(begin + 2, begin + size - 2):
            data[i] ^= 0x55
        path.write_bytes(data)


@pytest.mark.parametrize("damaged", ["{info}/METADATA", "{info}/entry_points.txt"])
def test_a_wheel_whose_metadata_cannot_be_read_is_broken_and_the_rest_is_found(site, monkeypatch, damaged):
    site.add("good", "")
    path = site.path / "acme_zipped-1.0-py3-none-any.whl"
    wheel(path, damaged)
    monkeypatch.setattr(sys, "path", [str(path), *sys.path])
    found = {record.name: record for record, _ in discovery.discover()}
    assert found["good"].state == "found"
    record = found["acme-zipped"]
    assert record.state == "broken" and record.distribution == "acme-zipped"
    assert f"its metadata at {path}" in record.error and "install it again" in record.error
    assert "zlib.error" in record.error or "BadZipFile" in record.error
    monkeypatch.setenv("MX_DISABLE_PLUGINS", "acme-zipped")
    assert [r.state for r, _ in discovery.discover() if r.name == "acme-zipped"] == ["blocked"]


def test_a_wheel_whose_module_cannot_be_read_is_broken(site, quiet, monkeypatch):
    site.add("good", "")
    path = site.path / "acme_zipped-1.0-py3-none-any.whl"
    wheel(path, "acme_zipped.py")
    monkeypatch.setattr(sys, "path", [str(path), *sys.path])
    states = {record.name: record for record in plugins.plugins()}
    assert states["good"].state == "loaded" and states["zipped"].state == "broken"
    assert "module 'acme_zipped' cannot be read, its archive is damaged: zlib.error" in states["zipped"].error
    assert plugins.missing_hint("operators", "gamma") == "1 plug-in did not load; see: mx plugins."


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("entry_points.txt", b"[mx.plugins.v1]\nodd = \xff\xfe\n", "UnicodeDecodeError"),
        (
            "METADATA",
            b"Metadata-Version: 2.1\nVersion: 1.0\n",
            r"TypeError|DeprecationWarning: Implicit None",
        ),
    ],
)
def test_metadata_that_are_no_text_or_have_no_name_are_told(site, name, content, said):
    site.add("good", "")
    site.add("odd", "", distribution="acme-odd")
    (site.path / "acme_odd-0.1.0.dist-info" / name).write_bytes(content)
    found = {record.name: record for record, _ in discovery.discover()}
    assert found["good"].state == "found" and found["acme-odd"].state == "broken"
    assert re.search(said, found["acme-odd"].error)
