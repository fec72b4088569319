# SPDX-License-Identifier: Apache-2.0
"""What a user meets on a machine without a GPU."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

import mx_core
from mx_core import kernels, operators, plugins, services
from mx_core.errors import MXNetError, PluginError
from mx_core.kernels import TensorSpec
from mx_operators_cuda import driver, kernel, ledger

NO_GPU = driver.count() == 0


def test_loading_imports_nothing_of_cuda() -> None:
    code = (
        "import sys\nfrom mx_core import plugins\nplugins.plugins()\n"
        "import mx_operators_cuda\n"
        "print(sorted({'cupy', *(f'mx_operators_cuda.{n}' for n in ('_native', 'nvrtc', 'codegen'))}"
        " & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_contributions() -> None:
    record = next(r for r in plugins.plugins() if r.name == "operators_cuda")
    assert record.state == "loaded"
    device = plugins.registry("devices").get("gpu").value
    assert device.type_id == 2
    assert "gpu/nvrtc" in plugins.registry("kernel_generators").names()
    assert "gpu/CUDA" in plugins.registry("storage_managers").names()


@pytest.mark.skipif(not NO_GPU, reason="this machine has a GPU")
def test_no_gpu_is_counted_quietly_and_missed_loudly() -> None:
    assert mx_core.num_gpus() == 0
    assert driver.installed() is False
    assert "cpu_pinned/CUDA pinned" not in plugins.registry("storage_managers").names()
    spec = TensorSpec((2,), 0)
    op = operators.get("relu")
    message = r"gpu\(0\) cannot be used: .*driver.*"
    with pytest.raises(MXNetError, match=message):
        kernels.prepare(op, op.Param.parse({}), [spec], [spec], mx_core.gpu())
    with pytest.raises(PluginError, match=message):
        services.storage("gpu")
    with pytest.raises(PluginError, match=message):
        services.device("gpu")


def test_doctor_shows_what_is_found() -> None:
    lines = plugins.diagnostics()["operators_cuda"]
    assert set(lines) == {"NVIDIA driver", "GPUs", "Confirmed", "CuPy", "NVRTC", "cuBLAS", "cuDNN"}
    assert lines["Confirmed"] == ledger.summary()


def test_operators_without_a_kernel_name_themselves() -> None:
    """`mx ops --all` says `gpu: none` of those that no generator and no registration knows, and of no other."""
    from mx_core.cli import cli
    from mx_core.operator.simple import Elementwise
    from mx_operators_cuda.register import KERNELS

    shown = CliRunner().invoke(cli, ["ops", "--all"])
    assert shown.exit_code == 0
    lines = {line.split()[0]: line for line in shown.output.splitlines() if "gpu:" in line}
    ours = {name for name in operators.names() if operators.get(name).name in dict(KERNELS)}
    ours |= {name for name in operators.names() if isinstance(operators.get(name), Elementwise)}
    none = {name for name, line in lines.items() if line.endswith("gpu: none")}
    assert "_backward_not_offered" in none and not none & ours
    assert len(ours & set(lines)) > 500


@pytest.mark.long
def test_every_elementwise_operator_has_a_kernel(nvrtc: object) -> None:
    """Each operator that is an expression is generated; a sample of them is compiled."""
    from mx_core.operator.simple import Elementwise

    made = 0
    for position, name in enumerate(sorted(operators.names())):
        op = operators.get(name)
        if not isinstance(op, Elementwise):
            continue
        try:
            p = op.Param.parse({})
        except MXNetError:
            continue  # a parameter has no default
        spec = TensorSpec((4, 5), 0)
        inputs, outputs = (spec,) * len(op.inputs(p)), (spec,) * len(op.outputs(p))
        launch = kernel(name, op.expression(p), inputs, outputs)
        assert launch is not None, name
        made += 1
        if position % 8 == 0:
            nvrtc.compile_kernel(launch.source.text, launch.source.name)  # type: ignore[attr-defined]
    assert made > 100
