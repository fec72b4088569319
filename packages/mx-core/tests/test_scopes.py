# SPDX-License-Identifier: Apache-2.0
"""The stretch a thread is in."""

import threading

from mx_core import scopes


def test_listeners_hear_of_every_change_and_threads_are_apart(monkeypatch):
    monkeypatch.setattr(scopes, "_listeners", [])
    heard = []
    scopes.listen(heard.append)
    assert scopes.enter("a:") == ""
    thread = threading.Thread(target=lambda: heard.append(scopes.prefix()))
    thread.start()
    thread.join(10)
    assert scopes.prefix() == "a:"
    assert scopes.enter("") == "a:"
    assert heard == ["a:", "", ""]
