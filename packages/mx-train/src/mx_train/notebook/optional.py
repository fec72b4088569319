# SPDX-License-Identifier: Apache-2.0
"""What draws and keeps tables in notebooks, if it is installed."""

from __future__ import annotations

from typing import Any

from mx_core.errors import MXNetError
from mx_core.imports import import_by_name


def pandas(who: str) -> Any:
    """The module pandas.

    Raises
    ------
    MXNetError  it is not installed
    """
    return _installed("pandas", "pandas", "keeps tables", who)


def bokeh(name: str, who: str) -> Any:
    """A module of Bokeh, such as `plotting`.

    Raises
    ------
    MXNetError  Bokeh is not installed
    """
    return _installed(f"bokeh.{name}", "Bokeh", "draws in notebooks", who)


def _installed(module: str, project: str, purpose: str, who: str) -> Any:
    try:
        return import_by_name(module)
    except ImportError as error:
        raise MXNetError(
            f"[{who}] {project} is not installed, which {purpose}: install mx-train[notebook]; "
            "mx.callback.LearningCurve writes numbers and pictures without it"
        ) from error
