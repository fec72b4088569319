# SPDX-License-Identifier: Apache-2.0
import json
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

import mx_core
from mx_core import lifecycle
from mx_core.cli import cli
from mx_core.errors import ArgumentError
from mx_core.plugins import specs

STORES = """
    import mx_core

    MX_PLUGIN = mx_core.PluginInfo("a store", "https://example.org", variables={"MX_STORE_PORT": "its port"})

    def mx_register_kvstores(registry):
        registry.add("near", "collections:OrderedDict")
        registry.add("far", "collections:NoSuchStore")

    def mx_diagnostics():
        return {"port": 4711}
"""
COMMANDS = """
    import click

    @click.command()
    def hello():
        click.echo("hello from a plug-in")

    def mx_register_commands(registry):
        registry.add("hello", hello)
        registry.add("late", f"{__name__}:hello")
        registry.add("doctor", hello)
        registry.add("wrong", "json:loads")
        registry.add("gone", "no_such_module:command")
"""
BROKEN = "import no_such_module"


def test_version(mx):
    assert mx("--version") == (0, f"mx, version {mx_core.__version__}\n")


def test_no_plugins(mx):
    assert mx("plugins") == (0, "no plug-ins are installed\n")
    status, output = mx("ops")
    assert status == 0 and output.startswith("no operators are registered; mx-operators and ")


def test_the_list_has_a_line_each_and_fails_if_one_is_broken(mx, site):
    site.add("stores", STORES.replace("NoSuchStore", "Counter"))
    assert mx("plugins") == (0, "stores  loaded  mx-stores  0.1.0  2 kvstores\n")
    site.add("sick", BROKEN)
    status, output = mx("plugins")
    assert status == 1
    assert "sick    broken  mx-sick    0.1.0  ModuleNotFoundError: No module named" in output


def test_the_list_as_json(mx, site):
    site.add("stores", STORES)
    site.add("sick", BROKEN)
    status, output = mx("plugins", "--json")
    by_name = {record["name"]: record for record in json.loads(output)}
    assert status == 1
    assert by_name["stores"]["contributions"] == {"kvstores": ["near", "far"]}
    assert by_name["sick"]["state"] == "broken" and "no_such_module" in by_name["sick"]["error"]


def test_show_tells_what_a_plugin_brings(mx, site):
    site.add("stores", STORES)
    status, output = mx("plugins", "show", "stores")
    assert status == 0
    for part in (
        "is loaded",
        "a store",
        "https://example.org",
        "mx_register_kvstores",
        "registered kvstores: near, far",
    ):
        assert part in output


def test_show_has_the_traceback(mx, site):
    site.add("sick", BROKEN)
    _, output = mx("plugins", "show", "sick")
    assert "Traceback" in output and "import no_such_module" in output


DEEP = """
    def down(n):
        return down(n - 1) if n else {}["licence"]

    def mx_register_kvstores(registry):
        try:
            down(20)
        except KeyError as error:
            raise RuntimeError("no licence") from error
"""


def test_the_traceback_has_lines_of_the_plugin_only(mx, site):
    site.add("sick", DEEP)
    _, output = mx("plugins", "show", "sick")
    files = [line for line in output.splitlines() if line.startswith('  File "')]
    assert 2 <= len(files) <= 9 and all("fake_mx_sick_sick.py" in line for line in files)
    assert "down(20)" not in output and "KeyError: 'licence'" in output
    assert output.index("direct cause") < output.index(
        "RuntimeError: no licence\nraised in mx_register_kvstores"
    )


def test_one_of_a_kind_is_singular(mx, site):
    source = """
        def mx_register_kvstores(registry):
            registry.add("near", "json:loads")

        def mx_register_graph_passes(registry):
            registry.add("one", "graph", "json:loads")

        def mx_register_image_codecs(registry):
            for name in ("a", "b"):
                registry.add(name, (f".{name}",), "json:loads", "json:loads")
    """
    site.add("acme", source)
    assert "  1 graph pass, 1 kvstore, 2 image codecs" in mx("plugins")[1]


def test_show_of_an_unknown_plugin_lists_the_others(mx, site):
    site.add("stores", STORES)
    status, output = mx("plugins", "show", "store")
    assert status == 1 and "no plug-in 'store' is installed; there are: stores" in output


def test_a_misspelt_group_is_told(mx, site):
    site.add("stores", STORES)
    site.add("acme", "", group="mx.plugin.v1")
    said = "mx-acme: acme{}entry-point group 'mx.plugin.v1': expected 'mx.plugins.v1'"
    status, output = mx("plugins", "show", "acme")
    assert status == 1 and "no plug-in 'acme' is installed; there are: stores; " in output
    assert said.format(": ") in output
    status, output = mx("doctor", "--json")
    problems = json.loads(output)["problems"]
    assert status == 1
    assert (
        problems["distribution mx-acme: acme"] == "entry-point group 'mx.plugin.v1': expected 'mx.plugins.v1'"
    )


def test_check_runs_what_applies(mx, site):
    site.add("stores", STORES)
    status, output = mx("plugins", "check", "stores")
    assert status == 1
    assert "ok      kvstores 'near': make can be imported" in output
    assert "FAILED  kvstores 'far'" in output and "NoSuchStore" in output


def test_commands_of_plugins(mx, site):
    site.add("more", COMMANDS)
    assert mx("hello") == mx("late") == (0, "hello from a plug-in\n")
    assert "hello from" not in mx("doctor")[1], "mx's own commands come first"
    assert "hello" in mx("--help")[1]
    status, output = mx("wrong")
    assert status == 1 and "plug-in 'more'" in output and "expected a click command" in output
    assert mx("absent")[0] == 2


def test_doctor_reports_problems(mx, site, monkeypatch):
    site.add("stores", STORES, requires=("mx-engine",))
    site.add("sick", BROKEN)
    monkeypatch.setenv("MX_STORE_PORT", "80")
    monkeypatch.setenv("MX_STORE_PROT", "80")
    status, output = mx("doctor", "--json")
    report = json.loads(output)
    assert status == 1
    assert report["versions"]["python"] == sys.version.split()[0]
    assert report["plug-in stores"] == {"port": "4711"}
    assert report["devices"] == {"cpu": "1"}
    assert report["variables"]["MX_STORE_PORT"] == "80"
    problems = report["problems"]
    assert "did you mean MX_STORE_PORT?" in problems["MX_STORE_PROT"] and "MX_STORE_PORT" not in problems
    assert "no_such_module" in problems["plug-in sick"]
    assert "install mx-engine" in problems["engine"]
    assert "plug-ins\n" in mx("doctor")[1]


FORGED = """
    import ctypes
    from mx_core.testing.tables import Head

    class Old:
        name = "Old"
        head, label = Head(16, 0, 9), b"mx.engine.v1"
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        capsule = new(ctypes.addressof(head), label, None)

    def mx_register_engines(registry):
        registry.add("Old", Old)

    def mx_register_devices(registry):
        registry.add("npu", 64, lambda: 1 // 0, dict)
"""


def test_doctor_finds_tables_of_another_version_and_probes_that_fail(mx, site):
    site.add("forged", FORGED)
    _, output = mx("doctor", "--json")
    report = json.loads(output)
    assert "offers 0.9 (16 bytes)" in report["problems"]["engine"]
    assert "ZeroDivisionError" in report["problems"]["device npu"]


BROKEN_ENGINE = """
    def mx_register_engines(registry):
        registry.add("BadEngine", lambda: 1 / 0, priority=100)
"""


def test_doctor_finds_an_engine_that_is_passed_over(mx, site, engine_source):
    site.add("bad", BROKEN_ENGINE)
    site.add("plain", engine_source("Plain"))
    status, output = mx("doctor", "--json")
    problems = json.loads(output)["problems"]
    assert status == 1
    assert problems["plug-in bad: engines BadEngine"] == "it does not start: division by zero; using 'Plain'"


OPERATORS = """
    from mx_core.operator import SimpleOp

    class Twice(SimpleOp):
        '''2·x.'''
        name = "acme_twice"
        aliases = ("acme_double",)

        def function(self, p, data):
            return 2 * data

    def twice(call):
        return lambda ctx, inputs: [2 * inputs[0]]

    def wrong(call):
        return lambda ctx, inputs: [3 * inputs[0]]

    def mx_register_operators(registry):
        registry.add(Twice)

    def mx_register_kernels(registry):
        registry.add("acme_twice", "cpu", "plain", twice)
        registry.add("acme_twice", "cpu", "wrong", wrong, priority=1)
        registry.add("acme_twice", "cpu", "picky", twice, 50, lambda call: call.inputs[0].shape == (1,))
        registry.add("acme_twice", "cpu", "shy", lambda call: None, priority=40)
"""


def test_ops_show_which_kernel_is_chosen_and_why(mx, site):
    site.add("acme", OPERATORS)
    assert mx("ops") == (0, "acme_twice  cpu: picky, shy, plain, wrong, reference\n")
    status, output = mx("ops", "acme_double", "--input", "2x3")
    assert status == 0 and "2·x." in output and "Aliases: acme_double" in output
    assert mx("ops", "acme_double", "--input", "2,3") == (status, output)
    lines = {line.split()[0]: line for line in output.splitlines() if "priority" in line}
    assert lines["picky"].endswith("does not support this signature")
    assert lines["shy"].endswith("declined this signature")
    assert lines["plain"].endswith("chosen")
    assert lines["reference"].endswith("not needed")
    assert (
        "picky      priority 50  plug-in acme       chosen"
        in mx("ops", "show", "acme_twice", "--input", "1")[1]
    )


SCALED = """
    from mx_core.operator import Operator, Params, required

    class ScaleParam(Params):
        factor: float = required("what is multiplied by")
        axis: int = required("which axis")

    class Scale(Operator):
        name = "acme_scale"
        Param = ScaleParam
        differentiable = False
        def infer_shape(self, p, s):
            s.unify(["data", "output"])
        def reference(self, p, inputs, ctx):
            return [inputs[0] * p.factor]

    def mx_register_operators(registry):
        registry.add(Scale)
"""


def test_ops_show_says_which_parameters_to_set(mx, site):
    site.add("acme", SCALED)
    for given, said in (
        (("--input", "2,3"), "parameters are not given; add --set factor=FLOAT --set axis=INT"),
        (("--set", "factor=2"), "parameters are not given; add --set axis=INT"),
        (("--set", "factor=2", "--set", "axis=0"), "state inputs with --input, as in --input 2,3"),
    ):
        with pytest.raises(ArgumentError, match=said):
            mx("ops", "show", "acme_scale", *given)
    settings = ("--set", "factor=2", "--set", "axis=0")
    status, output = mx("ops", "show", "acme_scale", *settings, "--input", "2,3")
    assert status == 0 and "chosen" in output


def test_ops_show_what_declined_where_nothing_accepts(mx, site):
    kernels = """
    def mx_register_kernels(registry):
        registry.add("acme_scale", "gpu", "shy", lambda call: None)
"""
    site.add("acme", SCALED + kernels)
    given = ("--set", "factor=2", "--set", "axis=0", "--input", "2,3", "--device", "gpu")
    status, output = mx("ops", "show", "acme_scale", *given)
    assert status == 1 and "shy  priority 10  plug-in acme  declined this signature\n" in output
    assert output.rstrip().endswith(
        "with inputs (float32[2, 3]): none of its kernels for gpu (shy) takes such a call with factor=2, axis=0."
    )


def test_ops_of_an_unknown_name_suggests(mx, site):
    site.add("acme", OPERATORS)
    status, output = mx("ops", "acme_twic")
    assert status == 1 and "Did you mean 'acme_twice'" in output


def test_check_finds_the_kernel_that_is_wrong(mx, site):
    site.add("acme", OPERATORS)
    status, output = mx("plugins", "check", "acme")
    failed = [line for line in output.splitlines() if line.startswith("FAILED")]
    assert status == 1
    assert any("acme_twice/cpu/wrong" in line for line in failed)
    assert not any("acme_twice/cpu/plain" in line for line in failed)
    assert "ok      operators 'acme_twice': the gradient is that of the reference" in output
    assert "not checked  kernels 'acme_twice/cpu/shy'" in output


def test_an_error_of_mx_is_one_line():
    code = (
        "import os; os.environ.update(MX_DISABLE_PLUGINS='', MX_STRICT_PLUGINS='1');"
        "from mx_core import cli, plugins, errors\n"
        "def fail(): raise errors.PluginError('one line')\n"
        "plugins.plugins = fail\n"
        "import sys; sys.argv = ['mx', 'plugins']; cli.main()"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stderr) == (1, "Error: one line\n")


def test_ctrl_c_in_a_command_means_that_nothing_is_waited_for(monkeypatch):
    def run(error):
        def callback():
            raise error

        monkeypatch.setattr(lifecycle, "_interrupted", False)
        monkeypatch.setitem(cli.commands, "fail", click.Command("fail", callback=callback))
        assert CliRunner().invoke(cli, ["fail"]).exit_code != 0
        return lifecycle.interrupted()

    assert run(KeyboardInterrupt())
    assert not run(SystemExit(3))
    assert not run(click.ClickException("other"))


ASIDE = """
    def mx_register_kernels(registry):
        registry.add("no_such_operator", "cpu", "fast", dict)

    def mx_register_kvstores(registry):
        registry.add("far", "no_such_module:make")
"""


def test_what_is_set_aside_shows_everywhere(mx, site, monkeypatch):
    site.add("acme", ASIDE, distribution="acme-ops")
    monkeypatch.setenv("MX_DISABLE_PLUGINS", "acmee")
    status, output = mx("plugins")
    assert (
        status == 1 and "SET ASIDE" in output and "no_such_operator" in output and "no_such_module" in output
    )
    _, shown = mx("plugins", "show", "acme")
    assert "set aside kernels: no_such_operator/cpu/fast at" in shown and "Traceback" in shown
    (row,) = json.loads(mx("plugins", "--json")[1])
    assert [fault[:2] for fault in row["set_aside"]] == [
        ["kernels", "no_such_operator/cpu/fast"], ["kvstores", "far"],
    ]  # fmt: skip
    status, output = mx("doctor", "--json")
    problems = json.loads(output)["problems"]
    assert status == 1 and "did you mean acme" in problems["MX_DISABLE_PLUGINS acmee"]
    assert "no_such_module" in problems["plug-in acme: kvstores far"]


def test_check_and_show_take_the_name_of_the_distribution(mx, site):
    site.add("stores", STORES.replace("NoSuchStore", "Counter"), distribution="acme-z")
    assert (
        mx("plugins", "show", "acme-z") == mx("plugins", "show", "Acme_Z") == mx("plugins", "show", "stores")
    )
    by_distribution, by_name = (mx("plugins", "check", name) for name in ("acme-z", "stores"))
    assert by_distribution == by_name


def test_a_distribution_without_a_plugin_is_told(mx, site):
    site.add("acme", "", group="mx.plugin.v1", distribution="acme-z")
    status, output = mx("plugins", "check", "acme-z")
    assert status == 1
    assert "distribution 'acme-z' is installed and has no entry point of the group 'mx.plugins.v1'" in output


def test_a_part_alone_is_no_problem(mx, site, engine_source):
    site.add("plain", engine_source("Plain").replace("capsule = object()", "capsule = None"))
    status, output = mx("doctor", "--json")
    report = json.loads(output)
    assert report["interfaces"]["storage cpu"] == "not installed; mx-storage brings it"
    assert report["interfaces"]["random cpu"] == "not installed; mx-storage brings it"
    assert not {"storage cpu", "random cpu"} & set(report["problems"])
    site.add("arrays", "", requires=("mx-storage>=0",))
    assert "install mx-storage" in json.loads(mx("doctor", "--json")[1])["problems"]["storage cpu"]


def test_the_names_of_own_commands_are_those_that_there_are():
    assert sorted(cli.commands) == sorted(specs.OWN_COMMANDS)


#: commands of two engines, and of one
ENGINES = """
    import click

    def make(engine):
        @click.command(context_settings={"allow_interspersed_args": False})
        @click.option("-n", type=int)
        @click.option("--engine")
        @click.option(f"--{engine}-only")
        @click.option("--flag", is_flag=True)
        @click.argument("words", nargs=-1)
        def command(words, **options):
            "Starts something."
            click.echo(f"{engine} {options['n']} {' '.join(words)}")
        return command

    def mx_register_commands(registry):
        registry.add("start", make("steam"))
        registry.add("start@diesel", make("diesel"))
        registry.add("stop@diesel", make("diesel"))
"""


def test_several_plugins_have_a_command_of_one_name(mx, site):
    site.add("engines", ENGINES)
    assert mx("start", "go") == (0, "steam None go\n")
    assert mx("start", "--engine", "diesel", "go") == (0, "diesel None go\n")
    assert mx("start", "-n", "2", "--flag", "--diesel-only", "x", "--engine=diesel", "go") == (
        0,
        "diesel 2 go\n",
    )
    assert mx("start", "go", "--engine", "diesel") == (
        0,
        "steam None go --engine diesel\n",
    )  # the program's own
    assert mx("start", "--", "--engine", "diesel") == (0, "steam None --engine diesel\n")
    assert mx("start", "--engine", "sail", "go") == (0, "steam None go\n")  # which it may refuse itself
    assert mx("stop", "go") == mx("stop", "--engine", "diesel", "go") == (0, "diesel None go\n")
    assert "@" not in mx("--help")[1]
    status, output = mx("start", "--engine")
    assert status == 2 and "--engine" in output


#: a command whose engine is one of several that there might be
LAUNCHER = """
    import click
    from mx_core.cli.engines import Engine

    @click.command()
    @click.option("--engine", type=Engine("launch", "{engine}"), default="{engine}")
    def command(engine):
        click.echo(f"by {{engine}}")

    def mx_register_commands(registry):
        for name in {names}:
            registry.add(name, command)
"""


def test_the_engines_that_there_are_are_listed_and_others_are_told(mx, site):
    status, output = mx("launch", "--engine", "ray")
    told = "mx-kvstore-mpi or mx-kvstore-ray brings it: pip install mx-kvstore-mpi"
    assert status == 2 and f"No such command 'launch'. {told}" in output
    site.add("mpi", LAUNCHER.format(engine="mpi", names=("launch", "launch@mpi")))
    assert "--engine [mpi]" in mx("launch", "--help")[1]
    assert mx("launch") == mx("launch", "--engine", "mpi") == (0, "by mpi\n")
    status, output = mx("launch", "--engine", "ray")
    told = "engine 'ray' is not installed; there is mpi. mx-kvstore-ray brings it: pip install mx-kvstore-ray"
    assert status == 2 and told in output
    site.add("ray", LAUNCHER.format(engine="ray", names=("launch@ray",)))
    for words in (["--help"], ["--engine", "ray", "--help"]):
        assert "--engine [mpi|ray]" in mx("launch", *words)[1]
    assert mx("launch", "--engine", "ray") == (0, "by ray\n")
    assert "engine 'sail' is not installed; there is mpi, ray." in mx("launch", "--engine", "sail")[1]
