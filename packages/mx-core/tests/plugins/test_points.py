# SPDX-License-Identifier: Apache-2.0
"""Entry points are those that importlib.metadata finds; what is unusual is left to it."""

import importlib
import re
import subprocess
import sys
import zipfile
from importlib.metadata import DistributionFinder

import pytest

from mx_core.errors import PluginError
from mx_core.plugins import installed
from mx_core.plugins.points import Point, Unusual, in_folders

GROUPS = re.compile(r"mx\.plugins\.v\d+")


def write(folder, info, points, metadata="Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"):
    """A distribution's metadata in a folder."""
    place = folder / info
    place.mkdir(parents=True)
    if points is not None:
        (place / "entry_points.txt").write_bytes(points.encode("latin-1"))
    (place / "METADATA").write_text(metadata.format(name=info.partition("-")[0]))
    importlib.invalidate_caches()


def both():
    """What is found, and what importlib.metadata finds."""
    ours, theirs = in_folders(GROUPS), installed._unusual(installed.Installed())
    return sorted(ours), sorted(theirs)


def test_the_environment_of_the_tests():
    ours, theirs = both()
    assert ours == theirs


@pytest.mark.parametrize(
    "points",
    [
        None,
        "",
        "[mx.plugins.v1]\nacme = acme_ops\n",
        "# a comment\n\n[console_scripts]\na = b:c\n[mx.plugins.v1]\n # another\n acme=acme_ops.plugin [extra]\n",
        "outside = of_sections\n[mx.plugins.v2]\nacme = acme_ops:inner.part\n[mx.plugins.v1]\nacme = acme_ops\n",
        "[mx.plugins]\nacme = acme_ops\n",
        "\r\n[mx.plugins.v1]\r\nacme = acme_ops\r\n",
    ],
)
def test_forms_of_entry_points(site, points):
    requirements = "Requires-Dist: mx-core>=0.1\nRequires-Dist: numpy; extra == 'x'\n\nName: not a field\n"
    write(site.path, "Acme_Ops-1.0.dist-info", points, "Name: {name}\nVersion: 1.0\n" + requirements)
    write(site.path, "other-1.0.dist-info", "[console_scripts]\na = b:c\n")
    ours, theirs = both()
    assert ours == theirs
    assert {p.distribution for p in ours} <= {"acme-ops"}
    assert all(p.requires == ("mx-core>=0.1", "numpy; extra == 'x'") for p in ours)


def test_of_two_distributions_of_one_name_the_first_on_the_path_counts(site, monkeypatch):
    for version in ("1.0", "2.0"):
        metadata = f"Name: acme\nVersion: {version}\n"
        write(
            site.path / version, f"acme-{version}.dist-info", "[mx.plugins.v1]\nacme = acme_ops\n", metadata
        )
    monkeypatch.setattr(
        sys, "path", [str(site.path / "2.0"), str(site.path / "1.0"), str(site.path / "absent"), *sys.path]
    )
    ours, theirs = both()
    assert ours == theirs == [Point("acme", "acme_ops", "mx.plugins.v1", "acme", "2.0")]


@pytest.mark.parametrize("damage", ["no value", "no text", "no name", "folded", "egg-info"])
def test_damaged_metadata_are_unusual(site, damage):
    points = "[mx.plugins.v1]\nacme = acme_ops\n" + {"no value": "acme\n", "no text": "a = \xff\n"}.get(
        damage, ""
    )
    metadata = {"no name": "Version: 1.0\n", "folded": "Name: acme\nVersion: 1.0\n  .1\n"}
    info = "acme-1.0.egg-info" if damage == "egg-info" else "acme-1.0.dist-info"
    write(site.path, info, points, metadata.get(damage, "Name: acme\nVersion: 1.0\n"))
    with pytest.raises(Unusual):
        in_folders(GROUPS)


def test_archives_eggs_and_other_finders_are_unusual(site, monkeypatch):
    archive = site.path / "acme.whl"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("acme-1.0.dist-info/METADATA", "Name: acme\nVersion: 1.0\n")
        made.writestr("acme-1.0.dist-info/entry_points.txt", "[mx.plugins.v1]\nacme = acme_ops\n")
    for entry in (str(archive), str(site.path / "acme.egg")):
        with monkeypatch.context() as patched:
            patched.setattr(sys, "path", [*sys.path, entry])
            with pytest.raises(Unusual):
                in_folders(GROUPS)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "path", [*sys.path, str(archive)])
        assert installed.read_installed().points.keys() == {("acme", "acme")}

    class Finder(DistributionFinder):
        def find_spec(self, *given):
            return None

        def find_distributions(self, context=None):
            return iter(())

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    with pytest.raises(Unusual):
        in_folders(GROUPS)


def test_a_value_that_names_no_module_is_told():
    assert Point("a", "json:JSONDecoder.decode [x]", "g", "d", "1").load().__name__ == "decode"
    assert Point("a", "json", "g", "d", "1").module == "json"
    with pytest.raises(PluginError, match="entry point 'no module': expected 'module' or 'module:attribute'"):
        Point("a", "no module", "g", "d", "1").load()


def test_plugins_are_found_without_the_parser_of_mail():
    program = "import sys; from mx_core import plugins; plugins.plugins(); print('email' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
