# SPDX-License-Identifier: Apache-2.0
"""Automatic names and prefixes."""

import threading

from mx_symbol import AttrScope, NameManager, Prefix, sym


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
        assert NameManager.current is outer


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


def test_the_current_manager_and_scope_can_be_read_and_set_in_each_thread():
    seen = []

    def other():
        seen.append((NameManager.current.get(None, "own"), AttrScope.current.get(None)))
        AttrScope.current = AttrScope(lr_mult="3")
        seen.append(sym.Variable("a").attr("lr_mult"))

    with NameManager(), AttrScope(lr_mult="2"):
        assert NameManager.current.get(None, "own") == "own0"
        assert AttrScope.current.get({"wd_mult": "1"}) == {"lr_mult": "2", "wd_mult": "1"}
        NameManager.current = Prefix("set_")
        assert sym.relu(sym.Variable("a")).name == "set_relu0"
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert sym.Variable("a").attr("lr_mult") == "2"
    assert seen == [("own0", {}), "3"]
    assert AttrScope.current.get(None) == {}
