# SPDX-License-Identifier: Apache-2.0
import pytest

from mx_core import plugins, services
from mx_core.errors import PluginError, PluginWarning, SettingError


def test_the_highest_priority_is_chosen_and_kept(site, engine_source):
    site.add("slow", engine_source("Slow", 1))
    site.add("fast", engine_source("Fast", 9))
    engine = services.engine()
    assert engine.name == "Fast" and services.engine() is engine


def test_equal_priorities_are_decided_by_name(site, engine_source):
    site.add("x", engine_source("B"))
    site.add("y", engine_source("A"))
    assert services.engine().name == "A"


@pytest.mark.parametrize("variable", ["MX_ENGINE_TYPE", "MXNET_ENGINE_TYPE"])
def test_the_environment_names_the_engine(site, engine_source, monkeypatch, variable):
    site.add("slow", engine_source("Slow", 1))
    site.add("fast", engine_source("Fast", 9))
    monkeypatch.setenv(variable, "Slow")
    assert services.engine().name == "Slow"


def test_mx_engine_type_comes_before_mxnet_engine_type(site, engine_source, monkeypatch):
    site.add("a", engine_source("A"))
    site.add("b", engine_source("B"))
    monkeypatch.setenv("MXNET_ENGINE_TYPE", "A")
    monkeypatch.setenv("MX_ENGINE_TYPE", "B")
    assert services.engine().name == "B"


def test_an_unknown_engine_is_an_error_that_lists_the_others(site, engine_source, monkeypatch):
    site.add("a", engine_source("A"))
    site.add("b", engine_source("B"))
    monkeypatch.setenv("MX_ENGINE_TYPE", "C")
    with pytest.raises(PluginError, match="MX_ENGINE_TYPE=C.*available: A, B"):
        services.engine()


def test_no_engine_names_the_cure_and_the_broken_plugin(site, quiet):
    site.add("engine", "import no_such_module")
    with pytest.raises(PluginError, match="install mx-engine.*'engine'.*no_such_module"):
        services.engine()


FAILING = """
    def make():
        raise OSError("no such device")

    def mx_register_engines(registry):
        registry.add("Best", make, priority=99)
"""


def test_one_that_does_not_start_is_passed_over_with_a_warning(site, engine_source):
    site.add("best", FAILING)
    site.add("plain", engine_source("Plain"))
    with pytest.warns(PluginWarning, match="'Best'.*no such device.*using 'Plain'"):
        assert services.engine().name == "Plain"


def test_one_that_was_named_and_does_not_start_is_an_error(site, engine_source, monkeypatch):
    site.add("best", FAILING)
    site.add("plain", engine_source("Plain"))
    monkeypatch.setenv("MX_ENGINE_TYPE", "Best")
    with pytest.raises(PluginError, match="does not start: no such device") as caught:
        services.engine()
    assert isinstance(caught.value.__cause__, OSError)


def test_an_engine_without_a_table_is_refused(site):
    site.add("odd", "def mx_register_engines(registry):\n    registry.add('Odd', dict)\n")
    with pytest.raises(PluginError, match=r"'Odd'.*`.capsule`"):
        services.engine()


SERVICES = """
    class Thing:
        capsule = object()

    def mx_register_devices(registry):
        registry.add("npu", 64, lambda: 3, Thing)

    def mx_register_storage_managers(registry):
        registry.add("cpu", "plain", Thing)
        registry.add("cpu", "pooled", Thing, priority=5)
        registry.add("npu", "npu pool", Thing)

    def mx_register_resources(registry):
        registry.add("random", "cpu", Thing)
"""


def test_services_of_a_device_type(site):
    site.add("all", SERVICES)
    assert services.storage().name == "pooled" and services.storage() is services.storage("cpu")
    assert services.storage("npu").name == "npu pool"
    assert services.random("cpu").capsule is not None
    assert services.device("npu").name == "npu"
    assert (services.device_count("npu"), services.device_count("cpu")) == (3, 1)
    with pytest.raises(PluginError, match="storage manager for device 'gpu'"):
        services.storage("gpu")
    with pytest.raises(PluginError, match="random resource for device 'npu'"):
        services.random("npu")
    with pytest.raises(PluginError, match="no device 'gpu' is registered; install mx-operators-cuda"):
        services.device("gpu")
    with pytest.raises(PluginError, match="'tpu' is not among the registered devices: npu"):
        services.device("tpu")


def test_a_device_is_attached_to_the_engine_once(site, engine_source):
    site.add("all", SERVICES)
    site.add("engine", engine_source("A"))
    npu = services.device("npu")
    assert services.device("npu") is npu
    assert services.engine().attached == [npu.capsule]


def test_services_that_were_made_are_known(site):
    site.add("all", SERVICES)
    assert services.made("storage") == []
    found = [services.storage("npu"), services.storage("cpu")]
    services.random("cpu")
    assert services.made("storage") == found


def test_reset_chooses_anew(site, engine_source):
    site.add("a", engine_source("A"))
    first = services.engine()
    services.reset()
    assert services.engine() is not first


def test_when_none_starts_the_first_choice_says_why(site):
    site.add("best", FAILING)
    site.add(
        "other", FAILING.replace("Best", "Other").replace("no such device", "no licence").replace("99", "1")
    )
    with pytest.raises(PluginError, match="'Best'.*no such device"):
        services.engine()


RECURSIVE = """
    from mx_core import services

    class Same:
        name = "Same"

        def __init__(self):
            self.capsule = services.engine().capsule

    def mx_register_engines(registry):
        registry.add("Same", Same, priority=-1)
"""


def test_an_engine_that_asks_for_the_engine_while_it_is_made_is_told_so(site, engine_source, monkeypatch):
    site.add("same", RECURSIVE)
    site.add("plain", engine_source("Plain"))
    monkeypatch.setenv("MX_ENGINE_TYPE", "Same")
    for _ in range(2):
        with pytest.raises(PluginError) as caught:
            services.engine()
        said = str(caught.value)
        assert said.startswith("engines: 'Same' of plug-in 'same'") and said.count("Same") == 1
        assert said.endswith("does not start: it asks for the process's engine while it is being made")
    monkeypatch.delenv("MX_ENGINE_TYPE")
    assert services.engine().name == "Plain"


SETTING = """
    from mx_core.errors import SettingError

    def make():
        raise SettingError("[MX_ACME_THREADS] expected a whole number, got 'x'")

    def mx_register_engines(registry):
        registry.add("Best", make, priority=99)
"""


@pytest.mark.parametrize("named", ["", "Best"])
def test_a_wrong_variable_is_an_error_and_no_reason_for_another_engine(
    site, engine_source, monkeypatch, named
):
    site.add("best", SETTING)
    site.add("plain", engine_source("Plain"))
    monkeypatch.setenv("MX_ENGINE_TYPE", named)
    with pytest.raises(SettingError, match=r"^\[MX_ACME_THREADS\] expected a whole number, got 'x'$"):
        services.engine()


def test_what_is_passed_over_is_a_fault_of_its_plugin(site, engine_source, quiet):
    site.add("best", FAILING)
    site.add("plain", engine_source("Plain"))
    services.engine()
    (fault,) = plugins.faults("best")
    assert fault.error == "it does not start: no such device; using 'Plain'" and "OSError" in fault.traceback
