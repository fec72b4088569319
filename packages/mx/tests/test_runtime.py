# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
from pathlib import Path

import pytest

import mx
from mx_core import get_include
from mx_core.errors import ArgumentError, MissingFileError


def test_features_have_mxnets_names_and_are_one_object() -> None:
    features = mx.runtime.Features()
    assert features is mx.runtime.Features()
    assert len(features) == 32
    assert list(features)[:4] == ["CUDA", "CUDNN", "NCCL", "CUDA_RTC"]
    assert [feature.name for feature in mx.runtime.feature_list()] == list(features)
    assert repr(features["TENSORRT"]) == "✖ TENSORRT"
    assert repr(features).startswith("[")


def test_features_are_those_of_the_machine() -> None:
    features = mx.runtime.Features()
    assert features.is_enabled("cuda") is (mx.num_gpus() > 0)
    assert mx.num_gpus() > 0 or not features.is_enabled("cudnn")
    flags = next(
        line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")
    ).split()
    for name, flag in (("CPU_AVX2", "avx2"), ("CPU_SSE4A", "sse4a"), ("F16C", "f16c")):
        assert features.is_enabled(name) is (flag in flags)
    assert features.is_enabled("LAPACK")
    stores = mx.plugins.registry("kvstores").names()
    assert features.is_enabled("DIST_KVSTORE") is any(name.startswith("dist_sync@") for name in stores)


def test_without_the_kernels_of_onednn_there_is_no_mkldnn() -> None:
    code = "import mx; print([mx.runtime.Features().is_enabled(name) for name in ('MKLDNN', 'OPENMP', 'LAPACK')])"
    for blocked, said in (("", "[True, True, True]"), ("operators_cpu", "[False, False, True]")):
        run = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True,
            env={"MX_DISABLE_PLUGINS": blocked, "PATH": "/usr/bin"},
        )  # fmt: skip
        assert run.stdout.strip() == said


def test_an_unknown_feature_is_an_error_with_the_known_ones() -> None:
    with pytest.raises(ArgumentError, match="unknown feature 'ZZ'; known: CUDA, CUDNN"):
        mx.runtime.Features().is_enabled("zz")


def test_compiled_parts_and_headers_are_found() -> None:
    found = mx.libinfo.find_lib_path()
    assert found == mx.libinfo.find_lib_path("libmxnet")
    assert all(Path(path).is_file() for path in found)
    assert {"mx_core", "mx_engine", "mx_ndarray", "mx_storage"} <= {Path(path).parent.name for path in found}
    assert mx.libinfo.find_include_path() == get_include()
    assert mx.libinfo.__version__ == mx.__version__
    with pytest.raises(MissingFileError, match="tvmop.conf"):
        mx.libinfo.find_conf_path()


def test_variables_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MX_TEST_VALUE", raising=False)
    assert mx.util.getenv("MX_TEST_VALUE") is None
    mx.util.setenv("MX_TEST_VALUE", "1")
    assert mx.util.getenv("MX_TEST_VALUE") == "1"
    mx.util.setenv("MX_TEST_VALUE", None)
    mx.util.setenv("MX_TEST_VALUE", None)
    assert mx.util.getenv("MX_TEST_VALUE") is None
    with mx.util.environment("MX_TEST_VALUE", "inside"):
        assert mx.util.getenv("MX_TEST_VALUE") == "inside"
    assert mx.util.getenv("MX_TEST_VALUE") is None
    assert mx.util.environment is mx.test_utils.environment
    assert mx.util.get_gpu_count() == mx.num_gpus()


def test_modules_of_functions() -> None:
    def function() -> None: ...

    before = function.__module__
    assert mx.util.set_module(None)(function).__module__ == before
    assert mx.util.set_module("elsewhere")(function).__module__ == "elsewhere"


def test_shapes_of_numpy_at_the_top() -> None:
    assert mx.np_shape is mx.util.np_shape
    assert mx.use_np_shape is mx.util.use_np_shape
    with mx.np_shape(True):
        assert mx.is_np_shape()
    assert not mx.is_np_shape()
    assert mx.is_np_array is mx.util.is_np_array and mx.is_np_array() is False
