# SPDX-License-Identifier: Apache-2.0
"""Finding MXNet itself, beside which this package cannot be used."""

from __future__ import annotations

import os
from collections.abc import Iterable


def refuse(path: Iterable[str], here: str) -> None:
    """Raises if MXNet is installed, too.

    Its package has the same name. An installer writes the files of one over those of the other, and which of two
    folders is imported depends on the order of `sys.path`.

    Parameters
    ----------
    path : iterable of str
        The folders in which modules are looked for, `sys.path`.
    here : str
        The file of this package's `__init__`.

    Raises
    ------
    ImportError
        A folder has MXNet's library.
    """
    for folder in (os.path.dirname(os.path.dirname(here)), *(each for each in path if isinstance(each, str))):
        real = os.path.join(folder or os.curdir, "mxnet")
        if os.path.exists(os.path.join(real, "libinfo.py")):
            raise ImportError(
                f"MXNet itself is installed in {real}, and mx-mxnet, which gives mx its name, beside it: "
                "uninstall one of them, and install the other one again",
                name="mxnet",
            )
