# SPDX-License-Identifier: Apache-2.0
"""Records behave as frozen dataclasses do."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError

import pytest

from mx_core.record import Record


class Place(Record):
    """One of a map."""

    name: str
    height: int = 0
    #: what is near
    near: tuple[str, ...] = ()

    @property
    def is_high(self) -> bool:
        return self.height > 1000


class Other(Record):
    """Of the same members."""

    name: str
    height: int = 0
    near: tuple[str, ...] = ()


def test_members_by_position_by_name_and_by_default() -> None:
    assert Place("Brig") == Place(name="Brig", height=0) == Place("Brig", 0, near=())
    assert Place("Brig", near=("Visp",)).near == ("Visp",) and Place("Davos", 1560).is_high
    assert list(vars(Place("Brig", 678)).items()) == [("name", "Brig"), ("height", 678), ("near", ())]


def test_equality_hash_and_text() -> None:
    assert Place("Brig") != Place("Visp") and Place("Brig") != Other("Brig") and Place("Brig") != "Brig"
    assert len({Place("Brig"), Place("Brig", 0), Other("Brig")}) == 2
    assert repr(Place("Brig", 678)) == "Place(name='Brig', height=678, near=())"


@pytest.mark.parametrize(
    ("values", "named", "message"),
    [
        ((), {}, "Place: 'name' is not given"),
        (("Brig", 1, (), 2), {}, "Place: expected 3 values or fewer, got 4"),
        (("Brig",), {"name": "Visp"}, "Place: 'name' is given twice"),
        (("Brig",), {"heigth": 1}, "Place: 'heigth' is none of name, height, near"),
    ],
)
def test_wrong_members_are_told(values, named, message) -> None:
    with pytest.raises(TypeError, match=f"^{message}$"):
        Place(*values, **named)


def test_a_record_does_not_change() -> None:
    place = Place("Brig")
    with pytest.raises(FrozenInstanceError):
        place.name = "Visp"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del place.name
    assert place == Place("Brig")


def test_copies_are_equal() -> None:
    place = Place("Brig", 678, ("Visp",))
    assert copy.copy(place) == copy.deepcopy(place) == pickle.loads(pickle.dumps(place)) == place
