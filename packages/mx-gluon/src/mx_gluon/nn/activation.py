# SPDX-License-Identifier: Apache-2.0
"""Activations: elementwise functions, of which one has a parameter."""

from __future__ import annotations

from typing import Any

from mx_gluon.block import HybridBlock
from mx_gluon.errors import RefusedError
from mx_gluon.parameter.filling import Init
from mx_train import initializer


class Activation(HybridBlock):
    """A function by name.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    activation : {"relu", "sigmoid", "tanh", "softrelu", "softsign"}
    """

    def __init__(self, activation: str, **kwargs: Any) -> None:
        self._act_type = activation
        super().__init__(**kwargs)

    def _alias(self) -> str:
        return self._act_type

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The function of every element."""
        return F.Activation(x, act_type=self._act_type, name="fwd")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._act_type})"


class LeakyReLU(HybridBlock):
    """x where it is above 0, `alpha * x` elsewhere.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    alpha : float
        From 0.

    Raises
    ------
    RefusedError  `alpha` is below 0
    """

    def __init__(self, alpha: float, **kwargs: Any) -> None:
        if alpha < 0:
            raise RefusedError(f"[LeakyReLU] alpha: expected a slope from 0, got {alpha}")
        super().__init__(**kwargs)
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The function of every element."""
        return F.LeakyReLU(x, act_type="leaky", slope=self._alpha, name="fwd")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._alpha})"


class PReLU(HybridBlock):
    """x where it is above 0, `alpha * x` elsewhere, where alpha is learned, for all channels or each.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    alpha_initializer : Initializer
    in_channels : int
        1, or the number of channels.

    Source: He et al., Delving Deep into Rectifiers, 2015.
    """

    def __init__(
        self, alpha_initializer: Init = initializer.Constant(0.25), in_channels: int = 1, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.alpha = self.params.get("alpha", shape=(in_channels,), init=alpha_initializer)

    def hybrid_forward(self, F: Any, x: Any, alpha: Any) -> Any:
        """The function of every element."""
        return F.LeakyReLU(x, gamma=alpha, act_type="prelu", name="fwd")


class ELU(HybridBlock):
    """x where it is above 0, `alpha * (exp(x) - 1)` elsewhere.

    Threads: as `HybridBlock`.

    Source: Clevert et al., Fast and Accurate Deep Network Learning by Exponential Linear Units, 2016.
    """

    def __init__(self, alpha: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The function of every element."""
        return F.LeakyReLU(x, act_type="elu", slope=self._alpha)


class SELU(HybridBlock):
    """The scaled ELU, which keeps mean 0 and variance 1.

    Threads: as `HybridBlock`.

    Source: Klambauer et al., Self-Normalizing Neural Networks, 2017.
    """

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The function of every element."""
        return F.LeakyReLU(x, act_type="selu", name="fwd")


class GELU(HybridBlock):
    """x times the normal distribution's probability of less than x.

    Threads: as `HybridBlock`.

    Source: Hendrycks and Gimpel, Gaussian Error Linear Units, 2016.
    """

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The function of every element."""
        return F.LeakyReLU(x, act_type="gelu", name="fwd")


class Swish(HybridBlock):
    """`x * sigmoid(beta * x)`.

    Threads: as `HybridBlock`.

    Source: Ramachandran et al., Searching for Activation Functions, 2017.
    """

    def __init__(self, beta: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._beta = beta

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The function of every element."""
        return x * F.sigmoid(self._beta * x, name="fwd")
