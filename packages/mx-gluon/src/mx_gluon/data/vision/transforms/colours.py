# SPDX-License-Identifier: Apache-2.0
"""Random changes of colours, of images (height, width, 3). The seed is that of `mx.random.seed`."""

from __future__ import annotations

from typing import Any

from mx_gluon.block import HybridBlock


class _Factor(HybridBlock):
    """Multiplies by a factor between max(0, 1 − strength) and 1 + strength."""

    operator: str

    def __init__(self, strength: float) -> None:
        super().__init__()
        self._args = (max(0, 1 - strength), 1 + strength)

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """An image."""
        return getattr(F.image, self.operator)(x, *self._args)


class RandomBrightness(_Factor):
    """Multiplies by a random factor.

    Threads: any.

    Parameters
    ----------
    brightness : float
        The factor is between max(0, 1 − brightness) and 1 + brightness.
    """

    operator = "random_brightness"

    def __init__(self, brightness: float) -> None:
        super().__init__(brightness)


class RandomContrast(_Factor):
    """Multiplies the distance from the mean gray by a random factor.

    Threads: any.

    Parameters
    ----------
    contrast : float
        The factor is between max(0, 1 − contrast) and 1 + contrast.
    """

    operator = "random_contrast"

    def __init__(self, contrast: float) -> None:
        super().__init__(contrast)


class RandomSaturation(_Factor):
    """Multiplies the distance from each pixel's gray by a random factor.

    Threads: any.

    Parameters
    ----------
    saturation : float
        The factor is between max(0, 1 − saturation) and 1 + saturation.
    """

    operator = "random_saturation"

    def __init__(self, saturation: float) -> None:
        super().__init__(saturation)


class RandomHue(_Factor):
    """Turns hues by a random part of the circle.

    Threads: any.

    Parameters
    ----------
    hue : float
        The part is between max(0, 1 − hue) − 1 and hue.
    """

    operator = "random_hue"

    def __init__(self, hue: float) -> None:
        super().__init__(hue)


class RandomColorJitter(HybridBlock):
    """Changes brightness, contrast, saturation and hue in random order.

    Threads: any.

    Parameters
    ----------
    brightness, contrast, saturation, hue : float
        Strengths, as of the transforms of one of them.
    """

    def __init__(
        self, brightness: float = 0, contrast: float = 0, saturation: float = 0, hue: float = 0
    ) -> None:
        super().__init__()
        self._args = (brightness, contrast, saturation, hue)

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """An image."""
        return F.image.random_color_jitter(x, *self._args)


class RandomLighting(HybridBlock):
    """Adds noise along the principal components of colours.

    Threads: any.

    Source: Krizhevsky, Sutskever and Hinton, ImageNet Classification with Deep Convolutional Neural Networks, 2012.

    Parameters
    ----------
    alpha : float
        Deviation of the noise.
    """

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """An image."""
        return F.image.random_lighting(x, self._alpha)
