# SPDX-License-Identifier: Apache-2.0
import array
import ctypes
import pickle

import numpy as np
import pytest

import mx
from mx import base
from mx_core import errors


def test_errors_are_those_of_the_core() -> None:
    assert base.MXNetError is mx.MXNetError is errors.MXNetError
    assert base.ShapeError is errors.ShapeError


def test_groups_of_types() -> None:
    assert isinstance(np.float32(1), base.numeric_types)
    assert isinstance(np.int64(1), base.integer_types)
    assert not isinstance(1.0, base.integer_types)
    assert base.string_types == (str,)
    assert base.mx_real_t is np.float32


def test_strings_and_arrays_of_c() -> None:
    assert base.py_str(base.c_str("é").value or b"") == base.py_str("é") == "é"
    assert list(base.c_str_array(["a", "b"])) == [b"a", b"b"]
    assert list(base.c_array(base.mx_uint, [1, 2])) == [1, 2]
    numbers = array.array("I", [3, 4])
    shared = base.c_array_buf(ctypes.c_uint, numbers)
    shared[0] = 9
    assert numbers[0] == 9


def test_the_folder_of_data_is_that_of_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.delenv("MXNET_HOME", raising=False)
    assert base.data_dir() == base.data_dir_default() == "/home/somebody/.mxnet"
    monkeypatch.setenv("MXNET_HOME", "/elsewhere")
    assert base.data_dir() == "/elsewhere"
    assert base.data_dir_default() == "/home/somebody/.mxnet"


def test_errors_of_symbols_name_the_function_the_operator_and_the_types() -> None:
    def asnumpy() -> None: ...

    error = base.NotImplementedForSymbol(asnumpy, "+", 1, "a")
    assert isinstance(error, mx.MXNetError)
    assert (
        str(error) == "[asnumpy] (operator '+') of int, str: is not implemented for Symbol; only for NDArray"
    )
    assert "asnumpy] of" not in str(base.NotSupportedForSparseNDArray(asnumpy, None))
    assert "SparseNDArray" in str(base.NotSupportedForSparseNDArray(asnumpy, None))


def test_helpers_of_classes() -> None:
    class Named:
        name = base.classproperty(lambda cls: cls.__name__)

    class Below(Named): ...

    assert (Named.name, Below.name, Below().name) == ("Named", "Below", "Below")

    class Meta(type): ...

    class Made(base.with_metaclass(Meta, dict)): ...  # type: ignore[misc]

    assert type(Made) is Meta
    assert Made.__mro__[1] is dict


def test_the_section_of_parameters() -> None:
    said = base.build_param_doc(["a", "b", "a"], ["int", "float", "int"], ["first", "", "again"])
    assert said == "Parameters\n----------\na : int\n    first\nb : float\n"
    assert "again" in base.build_param_doc(["a", "a"], ["int", "int"], ["first", "again"], remove_dup=False)


@pytest.mark.parametrize("name", ["_LIB", "check_call", "NDArrayHandle", "SymbolHandle"])
def test_what_belongs_to_mxnets_library_says_so(name: str) -> None:
    with pytest.raises(AttributeError, match=f"mx.base.{name} .*MXNet"):
        getattr(base, name)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        base.nothing


def test_what_a_symbol_cannot_do_raises_the_error_of_base() -> None:
    with pytest.raises(base.NotImplementedForSymbol, match=r"\[__bool__\].*only for NDArray") as caught:
        bool(mx.sym.Variable("x"))
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is base.NotImplementedForSymbol
    assert str(again) == str(caught.value)
