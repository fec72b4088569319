# SPDX-License-Identifier: Apache-2.0
import pytest

from mx_core import errors, files


@pytest.mark.parametrize(
    ("code", "kind", "builtin"),
    [
        (1, errors.MXNetError, RuntimeError),
        (2, errors.ShapeError, ValueError),
        (3, errors.DTypeError, TypeError),
        (4, errors.ArgumentError, ValueError),
        (5, errors.IndexOutOfBoundsError, IndexError),
        (6, errors.OutOfMemoryError, MemoryError),
        (7, errors.NoKernelError, NotImplementedError),
        (8, errors.AbiError, ImportError),
        (9, errors.EngineShutdownError, RuntimeError),
    ],
)
def test_status_codes_and_classes_translate_both_ways(code, kind, builtin):
    error = errors.from_status(code, "why")
    assert type(error) is kind and isinstance(error, builtin) and str(error) == "why"
    assert errors.status_of(error) == code


def test_unknown_codes_and_foreign_exceptions():
    assert type(errors.from_status(77, "odd")) is errors.MXNetError
    assert errors.status_of(KeyError("x")) == 10
    assert errors.status_of(errors.PluginError("x")) == 1
    assert errors.status_of(errors.SettingError("x")) == 4


def test_a_missing_file_is_an_error_of_ours_and_of_python(tmp_path):
    path = tmp_path / "net-0001.params"
    with pytest.raises(errors.MXNetError) as caught:
        files.read_bytes(path)
    error = caught.value
    assert isinstance(error, FileNotFoundError) and error.errno == 2 and error.filename == str(path)
    assert str(path) in str(error)
