# SPDX-License-Identifier: Apache-2.0
"""Likelihood of marked self-exciting point processes.

Source: Hawkes, Spectra of Some Self-Exciting and Mutually Exciting Point Processes, Biometrika 1971;
with exponential decay, as Ogata, 1981, has it.
"""

from __future__ import annotations

import numpy as np

from mx_core import dtypes
from mx_core.errors import IndexOutOfBoundsError
from mx_core.operator import Array, Arrays, NoParams, Operator, ReferenceContext, Shapes, Types
from mx_operators.nn.base import wide


class HawkesLogLikelihood(Operator):
    """Log likelihood (N,) of sequences of events with marks 0 … K − 1, and states (N, K) at their end.

    Mark k has the intensity ldaₖ + alphaₖ·betaₖ·sₖ(t): background lda (N, K), branching ratio alpha
    (K,), decay beta (K,). State sₖ (N, K) at time 0 decays with betaₖ and grows by one at each event
    of mark k. Event i comes lags[i] after the one before (N, T), with marks (N, T); valid_length (N,)
    events count, the observation ends at max_time (N,).
    """

    name = "_contrib_hawkesll"
    arguments = ("lda", "alpha", "beta", "state", "lags", "marks", "valid_length", "max_time")
    results = ("output", "out_state")
    without_gradient = arguments[3:]

    def infer_shape(self, p: NoParams, s: Shapes) -> None:
        """N sequences of T events, K marks."""
        background, lags = s.get("lda"), s.get("lags")
        if background is not None:
            if len(background) != 2:
                raise s.error(f"lda: expected (N, K), got {background}")
            s.assign("alpha", background[1:])
            s.assign("beta", background[1:])
            for name in ("valid_length", "max_time", "output"):
                s.assign(name, background[:1])
            s.assign("lags", (background[0], -1))
        s.unify(["lda", "state", "out_state"])
        if lags is not None:
            s.unify(["lags", "marks"])

    def infer_type(self, p: NoParams, t: Types) -> None:
        """One type of numbers; marks are int32 by default."""
        t.unify([name for name in (*self.arguments, *self.results) if name != "marks"])
        if t.get("lda") == dtypes.code("bool"):
            raise t.error("lda: expected a type of numbers, got bool")
        if t.get("marks") is None:
            t.assign("marks", np.int32)

    def reference(self, p: NoParams, inputs: Arrays, ctx: ReferenceContext) -> Arrays:
        """Event by event, all sequences at once."""
        likelihood, state, _ = _run([wide(x) for x in inputs])
        return likelihood.astype(inputs[0].dtype), state.astype(inputs[0].dtype)

    def backward(self, p: NoParams, out_grad: Array, inputs: Arrays) -> Arrays:
        """Sums that run along with the likelihood; that of the end state is not passed on."""
        _, _, slopes = _run(inputs)
        head = out_grad[:, None]
        by_background, by_branching, by_decay = slopes
        return by_background * head, (by_branching * head).sum(0), (by_decay * head).sum(0)


def _run(inputs: Arrays) -> tuple[Array, Array, tuple[Array, Array, Array]]:
    """Likelihoods, states at the end, and slopes (N, K) by lda, alpha and beta."""
    background, alpha, beta, state, lags, marks, lengths, end = inputs
    sequences, kinds = background.shape
    rows = np.arange(sequences)
    total = np.zeros(sequences)
    state = state.astype(np.float64)
    last = np.zeros((sequences, kinds))  # time of the last event of each mark
    by_decay_of_state = np.zeros((sequences, kinds))
    slopes = tuple(np.zeros((sequences, kinds)) for _ in range(3))
    time = np.zeros(sequences)
    for i in range(lags.shape[1]):
        counted = rows[i < lengths]
        if not counted.size:
            break
        mark = marks[counted, i].astype(np.int64)
        if mark.min() < 0 or mark.max() >= kinds:
            raise IndexOutOfBoundsError(
                f"[_contrib_hawkesll] marks: expected 0 to {kinds - 1}, got {mark.tolist()}"
            )
        time[counted] += lags[counted, i]
        at = (counted, mark)
        _settle(at, time[counted], state, last, by_decay_of_state, alpha, beta, total, slopes)
        a, b, s = alpha[mark], beta[mark], state[at]
        intensity = background[at] + a * b * s
        total[counted] += np.log(intensity)
        slopes[0][at] += 1 / intensity
        slopes[1][at] += b * s / intensity
        slopes[2][at] += a * (s + b * by_decay_of_state[at]) / intensity
        state[at] += 1
    everywhere = np.indices((sequences, kinds)).reshape(2, -1)
    at = (everywhere[0], everywhere[1])
    _settle(at, end[at[0]], state, last, by_decay_of_state, alpha, beta, total, slopes)
    total -= (background * end[:, None]).sum(1)
    slopes[0][...] -= end[:, None]
    return total, state, (slopes[0], slopes[1], slopes[2])


def _settle(
    at: tuple[Array, Array],
    now: Array,
    state: Array,
    last: Array,
    by_decay: Array,
    alpha: Array,
    beta: Array,
    total: Array,
    slopes: Arrays,
) -> None:
    """Lets states decay until now, and takes what their intensity added up to from the likelihood."""
    mark = at[1]
    a, b = alpha[mark], beta[mark]
    lag = now - last[at]
    decay = np.exp(-b * lag)
    gone = state[at] * (1 - decay)
    np.subtract.at(total, at[0], a * gone)
    slopes[1][at] -= gone
    slopes[2][at] -= a * (by_decay[at] * (1 - decay) + state[at] * lag * decay)
    by_decay[at] = by_decay[at] * decay - state[at] * lag * decay
    state[at] *= decay
    last[at] = now
