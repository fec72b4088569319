# SPDX-License-Identifier: Apache-2.0
"""The augmentation of one image: the native steps, with augmenters written in Python before and after them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mx_core import plugins
from mx_core.errors import ArgumentError, MXNetError, ShapeError
from mx_core.plugins.specs import resolve
from mx_core.signals import let_pass
from mx_io import _core, codecs
from mx_io.arrays import to_numpy

#: The native steps in a sequence of augmenters.
DEFAULT = "aug_default"
#: Added to the seed for mirroring and normalising after augmenters in Python: other numbers than those before.
_SECOND = 0x9E3779B97F4A7C15


def augmenters_of(given: Any, op: str) -> list[Any]:
    """Augmenters, and `DEFAULT` at most once, of a list of them or of their names, or of names with commas between.

    Raises
    ------
    ArgumentError  a name that nothing registers, or something that cannot be called
    """
    if isinstance(given, str):
        given = [name.strip() for name in given.split(",") if name.strip()]
    made: list[Any] = []
    for each in given if isinstance(given, list | tuple) else [given]:
        if isinstance(each, str) and each != DEFAULT:
            each = _registered(each, op)
        if not (callable(each) or hasattr(each, "seeded") or each == DEFAULT):
            raise ArgumentError(f"[{op}] aug_seq: expected augmenters or their names, got {each!r}")
        made.append(each)
    if made.count(DEFAULT) > 1:
        raise ArgumentError(f"[{op}] aug_seq: expected {DEFAULT!r} once, got it {made.count(DEFAULT)} times")
    return made


def _registered(name: str, op: str) -> Any:
    registry = plugins.registry("augmenters")
    if name not in registry:
        known = ", ".join([DEFAULT, *registry.names()])
        hint = plugins.missing_hint("augmenters", name)
        raise ArgumentError(f"[{op}] aug_seq: expected some of {known}, got {name!r}. {hint}".rstrip())
    try:
        return resolve(registry.get(name).value.make)()
    except TypeError as error:
        raise ArgumentError(
            f"[{op}] aug_seq: {name!r} needs parameters ({error}); give the augmenter itself in a list"
        ) from error


class Augmentation:
    """The augmentation of images into planes.

    Parameters
    ----------
    options : AugmentOptions
        The native steps.
    augmenters : list
        As `augmenters_of` gives it; `DEFAULT` stands for the native geometry and colours. Mirroring and normalising
        come last in any case.
    mean : ndarray of float32, shape (channels, height, width), optional
        Subtracted instead of the options' means.
    scaled : bool
        Whether images may be decoded at a smaller scale where augmentation shrinks them anyway.

    Notes
    -----
    An augmenter with a method `seeded(image, generator)` gets a NumPy generator that depends on seed, pass and example
    alone; any other is called with the image.

    Threads: any, if the augmenters may be called by any.
    """

    def __init__(
        self,
        options: _core.AugmentOptions,
        finishing: _core.AugmentOptions,
        augmenters: Sequence[Any] = (DEFAULT,),
        mean: npt.NDArray[np.float32] | None = None,
        scaled: bool = False,
    ) -> None:
        self.shape = (options.channels, options.height, options.width)
        self._options, self._finishing, self._mean = options, finishing, mean
        self._native = DEFAULT in augmenters
        middle = augmenters.index(DEFAULT) if self._native else len(augmenters)
        self._before, self._after = list(augmenters[:middle]), list(augmenters[middle + 1 :])
        #: whether there are native steps alone
        self.native = self._native and len(augmenters) == 1
        self._scaled = scaled and self._native and not self._before

    def least_scale(self, seed: int, number: int, key: int) -> Callable[[int, int], float] | None:
        """From height and width of an image to the scale at which it may be decoded; None if only at its own."""
        if not self._scaled:
            return None
        return lambda height, width: self._options.least_scale(height, width, seed, number, key)

    def fill(
        self,
        data: list[bytes | memoryview],
        out: np.ndarray[Any, Any],
        seed: int,
        numbers: list[int],
        keys: list[int],
    ) -> list[int]:
        """Decodes JPEG files and augments them into the places of a batch, with native steps alone.

        Returns
        -------
        list of int
            The places of those that must be decoded by the codecs: other formats, kinds of JPEG that are rare, damage.
        """
        return self._options.fill(data, out, seed, numbers, keys, self._mean, self._scaled, codecs.MAX_PIXELS)

    def apply(
        self,
        image: npt.NDArray[np.uint8],
        out: np.ndarray[Any, Any],
        seed: int,
        number: int,
        key: int,
        whole: tuple[int, int] = (0, 0),
    ) -> None:
        """Augments an image into planes (channels, height, width); `whole` is its size before it was made smaller."""
        if self.native:
            self._options.apply(image, out, seed, number, key, self._mean, whole)
            return
        generator: np.random.Generator | None = None
        if any(hasattr(step, "seeded") for step in (*self._before, *self._after)):
            generator = np.random.Generator(np.random.Philox(key=[seed, number], counter=[0, 0, 0, key]))
        pixels = self._stepped(image, self._before, generator)
        if self._native:
            pixels = self._options.reshape_and_colour(pixels, seed, number, key, whole)
        pixels = self._stepped(pixels, self._after, generator)
        if (pixels.shape[2], *pixels.shape[:2]) != self.shape:
            raise ShapeError(f"expected aug_seq to give (channels, height, width) {self.shape}, got "
                             f"{(pixels.shape[2], *pixels.shape[:2])}")  # fmt: skip
        self._finishing.apply(pixels, out, seed ^ _SECOND, number, key, self._mean)

    def _stepped(self, image: Any, steps: list[Any], generator: Any) -> npt.NDArray[np.uint8]:
        for step in steps:
            name = type(step).__name__
            try:
                image = to_numpy(step.seeded(image, generator) if hasattr(step, "seeded") else step(image))
            except (MXNetError, MemoryError):
                raise
            except Exception as error:
                let_pass(error)
                raise MXNetError(f"[{name}] {type(error).__name__}: {error}") from error
            if image.ndim != 3 or image.size == 0:
                raise ShapeError(
                    f"[{name}] expected an image (height, width, channels), got shape {image.shape}"
                )
        if image.dtype != np.uint8:
            image = np.rint(np.clip(image, 0, 255)).astype(np.uint8)
        return np.ascontiguousarray(image)
