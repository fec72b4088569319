# SPDX-License-Identifier: Apache-2.0
"""`mx plugins check` on plug-ins that are right: the template, and stores, whose contract it runs."""

from __future__ import annotations

import pytest

from mx_core import operators
from mx_core.testing.graph_pass import cases_of_passes
from testkit import fake_machine, fresh

#: plug-ins of the project, those first that take longer than seconds
OURS = ("engine", "io", "ndarray", "operators", "operators_cpu", "storage", "operators_cuda", "symbol")


def check(name: str, timeout: float = 200, **environment: str) -> list[str]:
    done = fresh.mx("plugins", "check", name, timeout=timeout, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.long
def test_the_template_passes_with_and_without_a_gpu() -> None:
    pytest.importorskip("mx_example_operators")
    lines = check("example_operators")
    for line in (
        "ok      operators 'quadratic': the gradient is that of the reference",
        "ok      operators 'moving_average': the gradient is that of the reference",
        "ok      kernels 'moving_average/cpu/example_native': moving_average equals the reference",
        "ok      kernels '_backward_moving_average/cpu/example_native': "
        "_backward_moving_average equals the reference",
    ):
        assert line in lines
    unchecked = [line for line in lines if line.startswith("not checked")]
    assert all("/gpu/" in line for line in unchecked), unchecked


@pytest.mark.long
def test_optimizers_and_metrics_are_made_and_run() -> None:
    lines = check("train")
    assert "ok      optimizers 'adam': it updates a weight" in lines
    assert "ok      metrics 'mse': it takes labels and predictions, and gives finite numbers" in lines
    untested = [line for line in lines if line.startswith("not checked") and "initializers" not in line]
    assert [line.split("'")[1] for line in untested] == ["topkaccuracy", "perplexity"]


@pytest.mark.long
def test_stores_run_their_contract() -> None:
    lines = check("kvstore")
    assert "ok      kvstores 'local': pushpull gives the sum" in lines


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "name", [*(pytest.param(name, marks=pytest.mark.slow) for name in OURS[:6]), *OURS[6:]]
)
def test_every_plugin_of_the_project_passes(name: str) -> None:
    check(name, timeout=550)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("_fused_Convolution", {"weight", "residual"}),
        ("_fused_FullyConnected", {"weight", "bias"}),
        ("_fused_attention", {"query", "key", "value"}),
        ("_fused_attention_training", {"query", "key", "value"}),
        ("_fused_attention_gradient", {"out_grad", "output", "statistics"}),
        ("_fused_log_softmax_pick", {"data", "label"}),
        ("_fused_log_softmax_pick_gradient", {"label", "probabilities"}),
        ("_onednn_pack_weight", {"weight"}),
        ("_onednn_RNN", {"parameters", "state_cell"}),
        ("_onednn_pack_RNN", {"weight"}),
        ("_fused", {"x0"}),
    ],
)
def test_sample_graphs_have_the_operators_that_passes_make(name: str, given: set[str]) -> None:
    assert operators.find(name) is None
    found = [set(case.op.inputs(case.params)) for case in cases_of_passes(name)]
    assert any(given <= inputs for inputs in found), found


@pytest.fixture(scope="module")
def gpus(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> dict[str, str]:
    """The environment of a machine with two GPUs."""
    if fake_machine.COMPILER is None:
        pytest.skip("there is no g++, which builds the fake driver")
    return fake_machine.Machine(tmp_path_factory, pytestconfig).environment


@pytest.mark.long
def test_plugins_for_gpus_pass_where_there_is_one(gpus: dict[str, str]) -> None:
    lines = check("operators_cuda", **gpus)
    assert "ok      devices 'gpu': arrays go there, are copied and come back" in lines
    assert "ok      storage managers 'gpu/CUDA': threads get memory of their own" in lines
    lines = check("example_operators", **gpus)
    assert "ok      kernels 'moving_average/gpu/example_cuda': make can be imported" in lines


@pytest.mark.long
def test_plugins_pass_without_the_package_of_gpus() -> None:
    pytest.importorskip("mx_example_operators")
    lines = check("example_operators", MX_DISABLE_PLUGINS="operators_cuda")
    unchecked = [line for line in lines if line.startswith("not checked")]
    assert len(unchecked) == 2 and all("/gpu/" in line for line in unchecked)
