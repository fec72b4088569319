# SPDX-License-Identifier: Apache-2.0
"""The record that every benchmark prints for each thing it measures."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence


def spread(times: Sequence[float]) -> float:
    """Half the distance between the quartiles of some measurements, relative to their median.

    Returns
    -------
    float
        0.03 says that half of them lie within about 3 % of the median; 0 for fewer than two.

    Examples
    --------
    >>> spread([1.0, 1.0, 1.1, 1.2, 1.2])
    0.0909...
    """
    if len(times) < 2:
        return 0.0
    low, median, high = statistics.quantiles(times, n=4, method="inclusive")
    return (high - low) / 2 / median


def record(
    name: str,
    value: float,
    unit: str,
    *,
    baseline: str | None = None,
    ratio: float | None = None,
    spread: float | None = None,
) -> None:
    """Prints what was measured as a line of JSON, which `nox -s bench` sums up.

    Parameters
    ----------
    name : str
        What was measured.
    value : float
        How much of it.
    unit : str
        Of `value`: `"us"`, `"GB/s"`, `"images/s"`.
    baseline : str, optional
        What it is compared with.
    ratio : float, optional
        How many times better than the baseline: 2 is twice as fast, or half the memory.
    spread : float, optional
        Relative uncertainty of the ratio, as `mx_core.testing.benchmark.spread` gives it. A ratio that is
        within it of 1 is shown as equal.

    Examples
    --------
    >>> record("push", 0.61, "us", baseline="concurrent.futures", ratio=9.8)
    {"name": "push", "value": 0.61, "unit": "us", "baseline": "concurrent.futures", "ratio": 9.8, "spread": null}
    """
    fields = {
        "name": name, "value": value, "unit": unit, "baseline": baseline, "ratio": ratio, "spread": spread,
    }  # fmt: skip
    rounded = {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in fields.items()}
    print(json.dumps(rounded), flush=True)
