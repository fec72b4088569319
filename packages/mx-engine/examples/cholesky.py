# SPDX-License-Identifier: Apache-2.0
"""Cholesky factorisation by tiles: the engine finds what can run at the same time.

    python cholesky.py --size 2000 --tile 250 --picture cholesky.svg

The program below is the textbook's loop over tiles. Every step says which tiles it reads and which it
changes; nothing else is needed for the steps to run in parallel where they can. NumPy's routines
release the GIL, so Python operations do use several cores. The picture is drawn from the profile: a
row per thread, a box per step, a line from each step to those that needed it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mx_core import services
from mx_engine import profiler

Matrix = npt.NDArray[np.float64]
COLOURS = {"factor": "#d1495b", "solve": "#edae49", "update": "#00798c"}


class Tiles:
    """A symmetric positive definite matrix in tiles, each with a variable of the engine."""

    def __init__(self, engine: Any, a: Matrix, tile: int) -> None:
        self.engine, self.tile = engine, tile
        self.n = -(-len(a) // tile)
        self.tiles = {
            (i, j): np.array(a[i * tile : (i + 1) * tile, j * tile : (j + 1) * tile])
            for i in range(self.n)
            for j in range(i + 1)
        }
        self.variables = {at: engine.new_variable() for at in self.tiles}
        #: name of a step -> names of the steps it needed
        self.needed: dict[str, set[str]] = {}
        self._last: dict[tuple[int, int], str] = {}

    def step(self, kind: str, at: tuple[int, int], *reads: tuple[int, int], number: int) -> None:
        """Pushes `tile(at) = kind(tile(at), *tiles(reads))`."""
        kernel = {"factor": factor, "solve": solve, "update": update}[kind]

        def run() -> None:
            self.tiles[at] = kernel(self.tiles[at], *(self.tiles[r] for r in reads))

        name = f"{kind} {at[0]},{at[1]} #{number}"
        self.needed[name] = {self._last[t] for t in (at, *reads) if t in self._last}
        self._last[at] = name
        variables = [self.variables[r] for r in dict.fromkeys(reads)]
        self.engine.push(run, reads=variables, writes=[self.variables[at]], name=name)

    def result(self) -> Matrix:
        """The lower triangular factor; waits for it."""
        self.engine.wait_for_all()
        rows = [
            np.hstack([self.tiles.get((i, j), self._zeros(i, j)) for j in range(self.n)])
            for i in range(self.n)
        ]
        return np.tril(np.vstack(rows))

    def _zeros(self, i: int, j: int) -> Matrix:
        return np.zeros((len(self.tiles[i, i]), len(self.tiles[j, j])))


def factor(a: Matrix) -> Matrix:
    """The factor of a diagonal tile."""
    return np.linalg.cholesky(a)


def solve(a: Matrix, diagonal: Matrix) -> Matrix:
    """A tile below the diagonal: X of X @ diagonal.T = a."""
    return np.linalg.solve(diagonal, a.T).T


def update(a: Matrix, left: Matrix, right: Matrix) -> Matrix:
    """What is left of a tile once a column is known."""
    return a - left @ right.T


def cholesky(engine: Any, a: Matrix, tile: int) -> Tiles:
    """Pushes all steps of the factorisation; returns at once."""
    tiles = Tiles(engine, a, tile)
    for k in range(tiles.n):
        tiles.step("factor", (k, k), number=k)
        for i in range(k + 1, tiles.n):
            tiles.step("solve", (i, k), (k, k), number=k)
        for i in range(k + 1, tiles.n):
            for j in range(k + 1, i + 1):
                tiles.step("update", (i, j), (i, k), (j, k), number=k)
    return tiles


def draw(trace: list[dict[str, Any]], needed: dict[str, set[str]], path: Path) -> None:
    """The steps of a profile over time as SVG."""
    steps = [e for e in trace if e["ph"] == "X" and e["name"] in needed]
    start = min(e["ts"] for e in steps)
    scale = 1600 / (max(e["ts"] + e["dur"] for e in steps) - start)
    rows = {thread: row for row, thread in enumerate(sorted({e["tid"] for e in steps}))}
    boxes = {
        e["name"]: ((e["ts"] - start) * scale, 60 * rows[e["tid"]] + 10, max(1.0, e["dur"] * scale))
        for e in steps
    }
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="1620" height="{60 * len(rows) + 10}">']
    for name, (x, y, width) in boxes.items():
        out.append(
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="40" fill="{COLOURS[name.split()[0]]}" '
            f'stroke="white"><title>{name}</title></rect>'
        )
    for name, earlier in needed.items():
        x, y, _ = boxes[name]
        for other in earlier:
            from_x, from_y, width = boxes[other]
            out.append(
                f'<line x1="{from_x + width:.1f}" y1="{from_y + 20}" x2="{x:.1f}" y2="{y + 20}" '
                f'stroke="#555" stroke-width="0.5"/>'
            )
    path.write_text("\n".join([*out, "</svg>"]))


def main() -> None:
    parser = argparse.ArgumentParser(description="Cholesky factorisation by tiles.")
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--tile", type=int, default=200)
    parser.add_argument("--picture", type=Path, help="draw the steps over time into this SVG file")
    given = parser.parse_args()
    random = np.random.default_rng(0)
    a = random.standard_normal((given.size, given.size))
    a = a @ a.T + given.size * np.eye(given.size)
    engine = services.engine()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        profiler.set_config(filename=str(trace))
        profiler.set_state("run")
        start = time.perf_counter()
        tiles = cholesky(engine, a, given.tile)
        pushed = time.perf_counter()
        lower = tiles.result()
        end = time.perf_counter()
        profiler.dump()
        events = json.loads(trace.read_text())["traceEvents"]
    error = np.abs(lower @ lower.T - a).max() / np.abs(a).max()
    print(
        f"{len(tiles.needed)} steps on {tiles.n} x {tiles.n} tiles, pushed in {1e3 * (pushed - start):.1f} ms"
    )
    print(f"done in {1e3 * (end - start):.0f} ms; largest error {error:.1e}")
    if given.picture:
        draw(events, tiles.needed, given.picture)
        print(f"drawn: {given.picture}")


if __name__ == "__main__":
    main()
