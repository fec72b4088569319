# SPDX-License-Identifier: Apache-2.0
"""Six plug-ins of which four are broken: they break nothing but themselves."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.long, pytest.mark.install]

OPERATOR = """
from mx_core.operator import SimpleOp

class {kind}(SimpleOp):
    name = "{name}"
    def function(self, p, data):
        return {expression}

def mx_register_operators(registry):
    registry.add({kind})
"""

GOOD = {
    "threefold": OPERATOR.format(kind="Threefold", name="threefold", expression="3 * data"),
    "fourfold": OPERATOR.format(kind="Fourfold", name="fourfold", expression="4 * data"),
}
BROKEN = {
    "no_import": ("import a_module_that_nobody_has\n" + OPERATOR.format(
        kind="Lost", name="lost", expression="data"), "broken", "a_module_that_nobody_has"),
    "other_api": ("MX_HOOK_API = (7, 0)\n" + OPERATOR.format(
        kind="Early", name="early", expression="data"), "incompatible", "needs hook API (7, 0), mx-core"),
    "half_way": (OPERATOR.format(
        kind="Halved", name="halved", expression="data / 2") + "    raise OSError('no more')\n",
        "broken", "no more"),
    "odd_hook": (OPERATOR.format(
        kind="Odd", name="odd_one", expression="data") + "def mx_register_wormholes(registry): pass\n",
        "broken", "mx_register_wormholes"),
}  # fmt: skip

#: operator -> the plug-in that should have brought it
MISSED = {"halved": "half_way", "lost": "no_import", "early": "other_api", "odd_one": "odd_hook"}


@pytest.fixture
def six(environment: Callable[..., Any], wheel: Callable[[str, str], Any]) -> Any:
    """An environment with all of them installed."""
    fresh = environment()
    sources = GOOD | {name: source for name, (source, *_) in BROKEN.items()}
    fresh.install(*(wheel(name, source) for name, source in sources.items()))
    return fresh


def test_six_plugins(six: Any) -> None:
    out = six.code(
        """
        import warnings
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            import mx
            x = mx.nd.array([1, 2])
            x.attach_grad()
            with mx.autograd.record():
                y = mx.nd.fourfold(mx.nd.threefold(x))
            y.backward()
            assert y.asnumpy().tolist() == [12, 24] and x.grad.asnumpy().tolist() == [12, 12]
            assert mx.sym.threefold(mx.sym.Variable("x")).infer_shape(x=(2,))[1] == [(2,)]
            assert mx.nd.relu(mx.nd.array([-1])).asscalar() == 0
        for warning in caught:
            print(warning.category.__name__, warning.message)
        """
    )
    lines = out.splitlines()
    assert len(lines) == len(BROKEN), out
    for name, (_, state, cause) in BROKEN.items():
        (line,) = [line for line in lines if f"'{name}'" in line]
        assert line.startswith("PluginWarning") and f"is {state}" in line and cause in line
        assert f"mx plugins show {name}" in line

    listed = six.mx("plugins")
    assert listed.returncode == 1, listed
    rows = {row.split()[0]: row.split()[1] for row in listed.stdout.splitlines()}
    assert {name: rows[name] for name in GOOD} == dict.fromkeys(GOOD, "loaded")
    assert {name: rows[name] for name in BROKEN} == {name: state for name, (_, state, _) in BROKEN.items()}
    as_json = json.loads(six.mx("plugins", "--json").stdout)
    assert {row["name"]: row["state"] for row in as_json}.items() >= rows.items()

    for name, (_, _, cause) in BROKEN.items():
        shown = six.mx("plugins", "show", name)
        assert (
            shown.returncode == 0 and cause in shown.stdout and f"mx-{name.replace('_', '-')}" in shown.stdout
        )
    assert "Traceback" in six.mx("plugins", "show", "half_way").stdout


@pytest.mark.parametrize("module", ["nd", "sym"])
def test_a_missed_operator_names_its_plugin(six: Any, module: str) -> None:
    out = six.code(
        f"""
        import warnings
        warnings.simplefilter("ignore")
        import mx
        for name in {list(MISSED)}:
            try:
                getattr(mx.{module}, name)
            except AttributeError as error:
                print(name, "|", str(error).replace(chr(10), " "))
        """
    )
    messages = dict(line.split(" | ", 1) for line in out.splitlines())
    for operator, plugin in MISSED.items():
        assert f"'{operator}'" in messages[operator] and f"'{plugin}'" in messages[operator], messages[
            operator
        ]
    # What a plug-in was about to register is known for certain: no other is suspected.
    assert "'no_import'" not in messages["halved"] and "'other_api'" not in messages["halved"]


def test_strict_mode_raises(six: Any) -> None:
    done = six.run("-c", "import mx; mx.nd.relu", MX_STRICT_PLUGINS="1")
    assert done.returncode == 1 and "PluginError" in done.stderr and "is broken" in done.stderr


def test_disabled_plugins_are_quiet(six: Any) -> None:
    names = ",".join(BROKEN)
    done = six.run("-W", "error", "-c", "import mx; mx.nd.threefold; mx.nd.relu", MX_DISABLE_PLUGINS=names)
    assert done.returncode == 0, done.stderr
