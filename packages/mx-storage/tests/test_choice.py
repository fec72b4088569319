# SPDX-License-Identifier: Apache-2.0
"""What the environment says about memory."""

from __future__ import annotations

import pytest

from mx_core.errors import SettingError
from mx_storage import plugin
from mx_storage.choice import MOST, integer


@pytest.mark.parametrize(("text", "value"), [(" ", 7), ("0", 0), (" 12 ", 12), (str(MOST), MOST)])
def test_whole_numbers_are_read(monkeypatch: pytest.MonkeyPatch, text: str, value: int) -> None:
    monkeypatch.delenv("MX_SIZE", raising=False)
    assert integer("MX_SIZE", 7) == 7
    monkeypatch.setenv("MX_SIZE", text)
    assert integer("MX_SIZE", 7) == value


@pytest.mark.parametrize("text", ["-1", "4k", "1.0", str(MOST + 1), "0" * 11, "9" * 5000])
def test_other_texts_are_refused_by_name(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("MX_SIZE", text)
    with pytest.raises(
        SettingError, match=rf"\[MX_SIZE\] expected a whole number up to 2147483647, got '{text[:40]}'"
    ):
        integer("MX_SIZE", 7)


def test_the_choice_holds_for_page_locked_memory_behind_that_of_devices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MX_CPU_MEM_POOL_TYPE", "Naive")
    made: dict[str, list[tuple[int, str]]] = {}

    class Registry:
        def add(self, device: str, name: str, make: str, priority: int) -> None:
            made.setdefault(device, []).append((priority, name))

    plugin.mx_register_storage_managers(Registry())
    assert [max(made[device])[1] for device in ("cpu", "cpu_pinned")] == ["Naive", "Naive"]
    assert max(made["cpu_pinned"])[0] < 0, "a device's package registers its own with 0 at least"
