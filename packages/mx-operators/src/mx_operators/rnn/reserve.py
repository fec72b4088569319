# SPDX-License-Identifier: Apache-2.0
"""The values that a recurrent stack keeps for backward: one vector.

First, by layer, then by direction: the gates (T, N, G·H) after their functions, in the cell's order,
and a value per unit (T, N, H): of lstm the cell state after the step, of gru R·h + b_R of its last
gate. Cells with one gate keep nothing here, their state tells it. Then the outputs (T, N, D·H) of
all layers but the last, before dropout. T counts along data, also where a direction runs backwards.
Beyond the length of a sequence gates, R·h + b_R and outputs are 0, and the cell state stays.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mx_core.operator import Array
from mx_operators.rnn.cells import CELLS
from mx_operators.rnn.params import RNNParam
from mx_operators.rnn.stack import Run
from mx_operators.rnn.weights import directions, state_width


def reserve_size(p: RNNParam, steps: int, batch: int) -> int:
    """Length of the vector for sequences of `steps` of `batch` rows."""
    gates = CELLS[p.mode].gates
    kept = p.num_layers * (gates + 1) if gates > 1 else 0
    shown = (p.num_layers - 1) * state_width(p)
    return int(steps * batch * directions(p) * (p.state_size * kept + shown))


def gather(p: RNNParam, runs: Sequence[Run]) -> Array:
    """The vector from the runs of `mx_operators.rnn.stack`."""
    parts: list[Array] = [np.zeros(0)]
    if CELLS[p.mode].gates > 1:
        for i, run in enumerate(runs):
            order = slice(None, None, -1 if i % directions(p) else 1)
            last = [
                c if CELLS[p.mode].has_cell_state else np.where(on, kept[3], 0)
                for (_, c), kept, on in zip(run.after, run.kept, run.on, strict=True)
            ]
            gates = [
                np.where(on, np.concatenate(kept[: CELLS[p.mode].gates], -1), 0)
                for kept, on in zip(run.kept, run.on, strict=True)
            ]
            parts += [np.stack(values)[order].ravel() for values in (gates, last)]
    for layer in range(p.num_layers - 1):
        shown = [runs[layer * directions(p) + d].shown[:: -1 if d else 1] for d in range(directions(p))]
        parts.append(np.concatenate(shown, -1).ravel())
    return np.concatenate(parts)
