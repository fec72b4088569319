# SPDX-License-Identifier: Apache-2.0
"""What handlers of signals raise passes through everything that takes errors for those of a plug-in."""

import functools
import signal
from types import SimpleNamespace

import pytest

from mx_core import kernels, operators, plugins, services
from mx_core.context import cpu
from mx_core.errors import PluginError
from mx_core.exits import exits_refused
from mx_core.kernels import TensorSpec
from mx_core.operator import Operator, SimpleOp, infer_shapes
from mx_core.signals import is_of_a_handler, let_pass


class Alarm(Exception):
    """What the handlers raise."""


def raise_alarm(*_):
    raise Alarm


class Handler:
    """Handlers that are no functions."""

    def method(self, *_):
        raise Alarm

    def __call__(self, *_):
        raise_alarm()


def raise_once(number, frame):
    signal.signal(number, signal.SIG_IGN)
    raise Alarm


def raise_once_with_any(*arguments):
    signal.signal(arguments[0], signal.SIG_IGN)
    raise Alarm


def raise_once_from_the_top(number, frame):
    while frame is not None:  # looks for the program's own frame
        frame = frame.f_back
    signal.signal(number, signal.SIG_IGN)
    raise Alarm


def raise_once_without_a_frame(number, frame):
    del frame
    signal.signal(number, signal.SIG_IGN)
    raise Alarm


def raise_once_with_the_rest(number, *rest):
    signal.signal(number, signal.SIG_IGN)
    rest = len(rest)
    raise Alarm


HANDLERS = [
    raise_alarm,
    lambda *_: raise_alarm(),
    Handler().method,
    Handler(),
    functools.partial(raise_alarm, 1),
    raise_once,  # set no more when it raises
    raise_once_with_any,
    raise_once_from_the_top,
    raise_once_without_a_frame,
    raise_once_with_the_rest,
]


@pytest.fixture
def alarm():
    before = signal.signal(signal.SIGUSR1, raise_alarm)
    yield lambda: signal.raise_signal(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("handler", HANDLERS)
def test_handlers_of_every_kind_are_known(handler, alarm):
    signal.signal(signal.SIGUSR1, handler)
    with pytest.raises(Alarm):
        try:
            alarm()
        except Exception as error:
            let_pass(error)


@pytest.mark.parametrize("kind", [Alarm, KeyboardInterrupt])
def test_what_another_error_was_made_of(kind, alarm):
    def handler(*_):
        raise kind

    class Named:
        def __set_name__(self, owner, name):
            alarm()

    signal.signal(signal.SIGUSR1, handler)
    with pytest.raises(kind):
        try:
            type("Owner", (), {"member": Named()})
        except Exception as error:  # of Python before 3.12 a RuntimeError
            let_pass(error)


def wrap_by_handling(alarm):
    try:
        alarm()
    except Exception:
        raise ValueError


def wrap_by_cleaning_up(alarm):
    try:
        alarm()
    finally:
        raise ValueError


def wrap_in_a_group(alarm):
    try:
        alarm()
    except Exception as error:
        raise ExceptionGroup("several", [ValueError(), error]) from None


@pytest.mark.parametrize("wrap", [wrap_by_handling, wrap_by_cleaning_up, wrap_in_a_group])
def test_what_another_error_hides(wrap, alarm):
    with pytest.raises(Alarm):
        try:
            wrap(alarm)
        except Exception as error:
            let_pass(error)


@pytest.mark.parametrize("kind", [Alarm, KeyboardInterrupt])
def test_what_the_program_is_handling_is_not_raised_again(kind, alarm):
    def handler(*_):
        raise kind

    def mistake():
        try:
            raise LookupError
        except LookupError:
            raise ValueError

    def save():
        try:
            mistake()
        except Exception as error:
            let_pass(error)
            return True

    signal.signal(signal.SIGUSR1, handler)
    try:
        alarm()
    except kind:
        assert save()


def test_functions_that_trace_a_kernel(alarm):
    class Bell(SimpleOp):
        name = "bell"

        def function(self, p, data):
            alarm()
            return data

    op = Bell()
    with pytest.raises(Alarm):
        op.expression(op.Param())


def test_causes_in_a_circle_end(alarm):
    first, second = ValueError(), ValueError()
    first.__cause__, second.__cause__ = second, first
    let_pass(first)


@pytest.mark.parametrize("handler", HANDLERS)
def test_one_that_native_code_called_is_known(handler, alarm):
    signal.signal(signal.SIGUSR1, handler)
    try:
        alarm()
    except Alarm as error:
        first = error.__traceback__
        error.__traceback__ = first.tb_next.tb_next  # from the handler on, without its callers
        assert is_of_a_handler(error)


def test_other_errors_are_left_alone(alarm):
    try:
        raise Alarm
    except Alarm as error:
        let_pass(error)
        assert not is_of_a_handler(error)


def sum_along(axis, shape):
    shape = tuple(shape)
    raise Alarm


def set_signal(number, handler):
    signal.signal(number, handler)


scipy = SimpleNamespace(signal=SimpleNamespace(filter=lambda order, data: data[order]))


def smooth(order, data):
    data = scipy.signal.filter(order, data)
    return [data]


def unset(is_last, data):
    data = signal.signal(signal.SIGUSR2, data)
    return [data]


def count(*values):
    values = len(values)
    raise Alarm


@pytest.mark.parametrize(
    "mistake",
    [lambda: sum_along(2, [3]), lambda: set_signal(15, "ignored"), lambda: count(1, 2)]
    + [lambda: smooth(5, [1]), lambda: unset(True, "ignored")],
)
def test_mistakes_of_functions_that_resemble_handlers_are_left_alone(mistake, alarm):
    with pytest.raises((Alarm, TypeError, ValueError, IndexError)) as caught:
        mistake()
    let_pass(caught.value)


def test_an_exit_by_a_handler_passes(alarm):
    signal.signal(signal.SIGUSR1, lambda *_: exit(3))
    with pytest.raises(SystemExit), exits_refused("it"):
        alarm()
    with pytest.raises(PluginError), exits_refused("it"):
        exit(3)


def test_inference_of_shapes(alarm):
    class Late(Operator):
        name = "late"
        differentiable = False

        def infer_shape(self, p, s):
            alarm()

    op = Late()
    with pytest.raises(Alarm):
        infer_shapes(op, op.Param(), [(2,)])


PLUGIN = """
    import signal
    import mx_core
    from mx_core.operator import Operator

    def ring(*_):
        signal.raise_signal(signal.SIGUSR1)

    class Twice(Operator):
        name = "twice"
        linear = True

        def backward(self, p, out_grad):
            return out_grad * 2

    class Rings(Operator):
        name = "rings"
        differentiable = False

        def __init__(self):
            {constructor}

    @mx_core.hookimpl
    def mx_register_operators(registry):
        {hook}
        registry.add(Twice)
        registry.add(Rings)

    @mx_core.hookimpl
    def mx_register_kernels(registry):
        registry.add("twice", "cpu", "rings", ring, 100)

    @mx_core.hookimpl
    def mx_register_engines(registry):
        registry.add("rings", ring)
"""


@pytest.mark.parametrize("where", ["constructor", "hook"])
def test_while_plugins_load(site, alarm, where):
    site.add("acme", PLUGIN.format(**{"constructor": "pass", "hook": "pass", where: "ring()"}))
    with pytest.raises(Alarm):
        operators.get("twice")
    signal.signal(signal.SIGUSR1, lambda *_: None)
    assert operators.get("rings").name == "rings", "nothing is set aside, and the next attempt loads it"


def test_kernels_and_services(site, alarm, monkeypatch):
    site.add("acme", PLUGIN.format(constructor="pass", hook="pass"))
    monkeypatch.setenv("MX_ENGINE_TYPE", "rings")
    twice, spec = operators.get("twice"), TensorSpec((2,), 0)
    with pytest.raises(Alarm):
        kernels.prepare(twice, twice.Param(), [spec], [spec], cpu())
    with pytest.raises(Alarm):
        services.engine()
    assert plugins.faults() == ()
