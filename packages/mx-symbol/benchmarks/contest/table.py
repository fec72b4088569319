# SPDX-License-Identifier: Apache-2.0
"""What was measured, as records and as a table for a page."""

from __future__ import annotations

import datetime
import os
import platform
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import mx_symbol
from mx_core.testing.benchmark import record, spread

OURS = "mx"
#: instruction sets that tables of kinds of processors differ in
_FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")


@dataclass(frozen=True)
class Row:
    """One network in one mode.

    Attributes
    ----------
    name : `network/batch/mode/type`
    items : images, sequences or words of a step
    turns : by framework the turns, each the seconds of its steps; equally many of each
    """

    name: str
    items: int
    turns: Mapping[str, Sequence[Sequence[float]]]

    def speed(self, framework: str) -> float:
        """Items per second: the median of its turns' medians."""
        return self.items / statistics.median(map(statistics.median, self.turns[framework]))

    def ratio(self, rival: str) -> tuple[float, float]:
        """How many times as fast as a rival we are, and the uncertainty of that.

        Turns are compared one by one, so that a neighbour who takes the processor for some seconds hits both.
        """
        ours, theirs = (map(statistics.median, self.turns[name]) for name in (OURS, rival))
        ratios = [their / our for our, their in zip(ours, theirs, strict=True)]
        value = statistics.median(ratios)
        return value, value * spread(ratios)

    @property
    def best(self) -> str | None:
        """The fastest rival."""
        return max((name for name in self.turns if name != OURS), key=self.speed, default=None)

    def print_records(self) -> None:
        """A record for each rival, the fastest first; one without a ratio where there is none."""
        rivals = sorted((name for name in self.turns if name != OURS), key=self.speed, reverse=True)
        for rival in rivals:
            value, noise = self.ratio(rival)
            record(self.name, self.speed(OURS), "/s", baseline=rival, ratio=value, spread=noise)
        if not rivals:
            record(self.name, self.speed(OURS), "/s")


def verdict(value: float, noise: float) -> str:
    """A ratio with its uncertainty; `equal` where it is within it of 1."""
    digits = 3 if 0 < noise < 0.005 else 2
    measured = f"{value:.{digits}f} ± {noise:.{digits}f}"
    return f"equal ({measured})" if abs(value - 1) <= noise else measured


def digits(speed: float) -> str:
    """Three digits, or all before the point."""
    return f"{speed:,.0f}" if speed >= 1000 else f"{speed:.3g}"


def markdown(rows: Sequence[Row], versions: Mapping[str, str]) -> str:
    """A table with what it was measured on: date, commit, processor, versions."""
    rivals = sorted({name for row in rows for name in row.turns if name != OURS})
    lines = [
        where(versions),
        "",
        "| network, batch, mode | mx | best rival | ratio | " + " | ".join(rivals) + " |",
    ]
    lines.append("|---" * (4 + len(rivals)) + "|")
    for row in rows:
        cells = [row.name, digits(row.speed(OURS))]
        if row.best is None:
            cells += ["", ""]
        else:
            cells += [row.best, verdict(*row.ratio(row.best))]
        cells += [digits(row.speed(name)) if name in row.turns else "" for name in rivals]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def where(versions: Mapping[str, str]) -> str:
    """Date, commit, processor and versions in a sentence each."""
    libraries = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    return (
        f"Measured on {datetime.date.today().isoformat()}, commit {commit()}, {processor()}, "
        f"{len(os.sched_getaffinity(0))} cores, Linux {platform.release()}. Versions: {libraries or 'no rival'}."
    )


def commit() -> str:
    """The commit that is checked out, with `+` where files differ from it."""
    git = ["git", "-C", str(Path(__file__).parent)]
    found = subprocess.run(
        [*git, "describe", "--always", "--dirty=+"], capture_output=True, text=True, check=False
    )
    return found.stdout.strip() if found.returncode == 0 else f"of mx-symbol {mx_symbol.__version__}"


def processor() -> str:
    """The processor's name and those of its instruction sets that matter."""
    about = dict(
        (key.strip(), value.strip())
        for key, _, value in (line.partition(":") for line in Path("/proc/cpuinfo").read_text().splitlines())
    )
    flags = [flag for flag in _FLAGS if flag in about.get("flags", "").split()]
    return f"{about.get('model name', platform.machine())} ({', '.join(flags)})"
