# SPDX-License-Identifier: Apache-2.0
"""Automatic names and prefixes."""

import threading

from mx_symbol import NameManager, Prefix, sym


def test_a_counter_per_hint():
    with NameManager():
        a = sym.Variable("a")
        names = [sym.relu(a).name, sym.relu(a).name, sym.Convolution(a, kernel=(1,), num_filter=1).name]
    assert names == ["relu0", "relu1", "convolution0"]


def test_automatic_inputs_follow_the_node():
    with NameManager():
        net = sym.contrib.quadratic(a=1)
    assert net.list_arguments() == ["quadratic0_data"]


def test_prefix_goes_before_explicit_names_too():
    with Prefix("net_"):
        a = sym.relu(sym.Variable("a"), name="act")
        b = sym.relu(sym.Variable("a"))
    assert a.name == "net_act"
    assert b.name == "net_relu0"


def test_leaving_restores_the_outer_manager():
    outer = NameManager()
    with outer:
        sym.relu(sym.Variable("a"))
        with NameManager():
            assert sym.relu(sym.Variable("a")).name == "relu0"
        assert sym.relu(sym.Variable("a")).name == "relu1"
        assert NameManager.current() is outer


def test_threads_have_managers_of_their_own():
    names = []
    with NameManager():
        sym.relu(sym.Variable("a"))
        thread = threading.Thread(target=lambda: names.append(sym.relu(sym.Variable("a")).name))
        thread.start()
        thread.join(10)
    assert names == ["relu0"]


def test_names_of_arithmetic_are_those_of_mxnet():
    a = sym.Variable("a")
    with NameManager():
        made = [2**a, sym.power(2, a), sym.hypot(a, 3), 2 % a, 2 / a]
    names = [symbol.name for symbol in made]
    assert names == ["_rpower_scalar0", "_rpowerscalar0", "_hypotscalar0", "_rmodscalar0", "_rdivscalar0"]


def test_an_automatic_name_is_that_of_the_namespace_whatever_was_called_before():
    x = sym.Variable("x")
    with NameManager():
        assert sym._internal._contrib_quadratic(x).name == "_contrib_quadratic0"
        assert sym.contrib.quadratic(x).name == "quadratic0"
        assert sym.linalg_gemm2(x, x).name == "linalg_gemm20"
        assert sym.linalg.gemm2(x, x).name == "gemm20"
