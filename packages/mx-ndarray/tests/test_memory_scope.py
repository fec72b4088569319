# SPDX-License-Identifier: Apache-2.0
"""Under which names arrays hold memory."""

from mx_core import scopes, services
from mx_ndarray import nd, waitall


def test_memory_is_held_under_the_name_of_its_scope():
    holders = services.storage("cpu").holders

    def held(tag):
        return holders().get(tag, 0)

    scopes.enter("encoder:test_setup:")
    try:
        inside = nd.ones((1000,))
    finally:
        scopes.enter("")
    before = held("ndarray")
    outside = nd.ones((500,))
    total = (inside[:500] + outside).asnumpy().sum()
    assert total == 1000
    assert held("encoder:test_setup:ndarray") == 4000
    assert held("ndarray") >= before + 2000
    del inside
    waitall()
    assert held("encoder:test_setup:ndarray") == 0
