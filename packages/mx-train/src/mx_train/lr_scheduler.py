# SPDX-License-Identifier: Apache-2.0
"""Learning rates that follow the number of updates."""

from __future__ import annotations

import logging
import math
import numbers
from collections.abc import Sequence

from mx_core.errors import ArgumentError

_CHANGE = "Update[%d]: Change learning rate to %0.5e"
_LAST_CHANGE = "Update[%d]: now learning rate arrived at %0.5e, will not change in the future"
_MOST_PRODUCTS = 1 << 20  # of one call: some 50 ms


class LRScheduler:
    """Maps the number of updates to a learning rate; this one warms up and then stays.

    Threads: one at a time.

    Parameters
    ----------
    base_lr : float
        Rate after the warm-up.
    warmup_steps : int
        Updates during which the rate rises.
    warmup_begin_lr : float
        Rate of the first update.
    warmup_mode : {"linear", "constant"}
        `constant` stays at warmup_begin_lr until the warm-up ends.
    """

    def __init__(
        self,
        base_lr: float = 0.01,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0.0,
        warmup_mode: str = "linear",
    ) -> None:
        if warmup_begin_lr > base_lr:
            raise ArgumentError(f"[LRScheduler] warmup_begin_lr {warmup_begin_lr} is above base_lr {base_lr}")
        if warmup_steps < 0:
            raise ArgumentError(f"[LRScheduler] warmup_steps: expected at least 0, got {warmup_steps}")
        if warmup_mode not in ("linear", "constant"):
            raise ArgumentError(
                f"[LRScheduler] warmup_mode: expected linear or constant, got {warmup_mode!r}"
            )
        self.base_lr = base_lr
        self.warmup_steps = warmup_steps
        self.warmup_begin_lr = warmup_begin_lr
        self.warmup_final_lr = base_lr
        self.warmup_mode = warmup_mode

    def get_warmup_lr(self, num_update: float) -> float:
        """Rate during the warm-up."""
        if self.warmup_mode == "constant":
            return self.warmup_begin_lr
        share = num_update / self.warmup_steps
        return self.warmup_begin_lr + (self.warmup_final_lr - self.warmup_begin_lr) * share

    def __call__(self, num_update: int) -> float:
        """Rate of update `num_update`, which counts from 1."""
        return self.get_warmup_lr(num_update) if num_update < self.warmup_steps else self.base_lr

    def rewind(self, num_update: int) -> None:
        """Goes back to update `num_update`, where rates depend on earlier calls: a checkpoint was loaded."""


class FactorScheduler(LRScheduler):
    """The rate is multiplied by `factor` after every `step` updates, down to `stop_factor_lr`.

    A step may be a fraction of an update, such as `samples / batch_size`. A call that changes the rate logs it.
    `base_lr` is the rate now and `count` the update of the last change. A program may set them between updates.

    The rate is multiplied once for each step, with each product rounded, as MXNet does. A call that passes more than
    2^20 steps at once (a schedule that goes on from a saved number of updates) takes a power for the steps above, which
    MXNet's rounding leaves by at most 2^-53 of the rate a step.
    """

    def __init__(
        self,
        step: float,
        factor: float = 1.0,
        stop_factor_lr: float = 1e-8,
        base_lr: float = 0.01,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0.0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        if step < 1:
            raise ArgumentError(f"[FactorScheduler] step: expected at least 1, got {step}")
        if factor > 1.0:
            raise ArgumentError(f"[FactorScheduler] factor: expected at most 1, got {factor}")
        self.step = step
        self.factor = factor
        self.stop_factor_lr = stop_factor_lr
        self.count: float = 0
        self._earlier: list[tuple[float, float]] = []  # count and base_lr before each call that changed them

    def __call__(self, num_update: float) -> float:
        """The rate of update `num_update`: the first base_lr · factor^(⌈num_update / step⌉ − 1)."""
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        if self._advance(num_update):
            stopped = self.base_lr == self.stop_factor_lr
            logging.info(_LAST_CHANGE if stopped else _CHANGE, num_update, self.base_lr)
        return self.base_lr

    def _advance(self, num_update: float) -> bool:
        """Multiplies the rate for the steps before update `num_update`; whether there were any."""
        steps, count = self._passed(num_update)
        if steps:
            self._earlier.append((self.count, self.base_lr))
            self.count = count
            self.base_lr = self._multiplied(steps)
        return steps > 0

    def _passed(self, num_update: float) -> tuple[int, float]:
        """The number of steps before update `num_update`, and the count after them."""
        count, step = self.count, self.step
        if all(isinstance(number, numbers.Integral) for number in (num_update, count, step)):
            steps = int(max(num_update - 1 - count, 0) // step)
            return steps, count + steps * step
        steps = 0
        while num_update > count + step and steps < _MOST_PRODUCTS:  # the sums are rounded as MXNet's
            count += step
            steps += 1
        left = math.ceil((num_update - count) / step) - 1 if steps == _MOST_PRODUCTS else 0
        return steps + left, count + left * step

    def _multiplied(self, steps: int) -> float:
        rate = self.base_lr
        for _ in range(min(steps, _MOST_PRODUCTS)):
            before = rate
            rate = max(rate * self.factor, self.stop_factor_lr)
            if rate == before:  # and so it stays
                return rate
        left = steps - _MOST_PRODUCTS
        return max(rate * self.factor**left, self.stop_factor_lr) if left > 0 else rate

    def rewind(self, num_update: float) -> None:
        """Takes back the changes after update `num_update`."""
        if not self._earlier or num_update > self.count:
            return
        while self._earlier and num_update <= self.count:
            self.count, self.base_lr = self._earlier.pop()
        self._advance(num_update)  # a call may have passed several steps


class MultiFactorScheduler(LRScheduler):
    """The rate is multiplied by `factor` when each of the given updates is passed.

    Each change is logged. `base_lr` is the rate now, `cur_step_ind` the number of changes so far, and `count` the
    update of the last one.
    """

    def __init__(
        self,
        step: Sequence[int],
        factor: float = 1.0,
        base_lr: float = 0.01,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0.0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        if not step or any(b <= a for a, b in zip([0, *step], step, strict=False)):
            raise ArgumentError(f"[MultiFactorScheduler] step: expected rising positive numbers, got {step}")
        if factor > 1.0:
            raise ArgumentError(f"[MultiFactorScheduler] factor: expected at most 1, got {factor}")
        self.step = list(step)
        self.factor = factor
        self.cur_step_ind = 0
        self.count = 0
        self._earlier: list[tuple[int, float]] = []  # count and base_lr before each change

    def __call__(self, num_update: int) -> float:
        """The rate of update `num_update`: the first base_lr · factor^(steps passed)."""
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        for step in self.step[self.cur_step_ind :]:
            if num_update <= step:
                break
            self._earlier.append((self.count, self.base_lr))
            self.count = step
            self.cur_step_ind += 1
            self.base_lr *= self.factor
            logging.info(_CHANGE, num_update, self.base_lr)
        return self.base_lr

    def rewind(self, num_update: int) -> None:
        """Takes back the changes after update `num_update`."""
        while self._earlier and num_update <= self.count:
            self.count, self.base_lr = self._earlier.pop()
            self.cur_step_ind -= 1


class _Falling(LRScheduler):
    """From base_lr to final_lr over max_update updates.

    `base_lr` is the rate now. The schedule is computed from `base_lr_orig`, the rate that it was made with. The
    `learning_rate` of an optimizer does not change it.
    """

    def __init__(
        self,
        max_update: int,
        base_lr: float = 0.01,
        final_lr: float = 0.0,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0.0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        if max_update < 1:
            raise ArgumentError(f"[{type(self).__name__}] max_update: expected at least 1, got {max_update}")
        self.base_lr_orig = base_lr
        self.max_update = max_update
        self.final_lr = final_lr
        self.max_steps = max_update - warmup_steps

    def _share(self, done: float) -> float:
        raise NotImplementedError

    def __call__(self, num_update: int) -> float:
        """The rate of update `num_update`; final_lr from max_update on."""
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        if num_update < self.max_update:
            share = self._share((num_update - self.warmup_steps) / self.max_steps)
            self.base_lr = self.final_lr + (self.base_lr_orig - self.final_lr) * share
        else:
            self.base_lr = self.final_lr
        return self.base_lr


class PolyScheduler(_Falling):
    """Falls as a power of what is left."""

    def __init__(
        self,
        max_update: int,
        base_lr: float = 0.01,
        pwr: float = 2,
        final_lr: float = 0.0,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0.0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(max_update, base_lr, final_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        self.power = pwr

    def _share(self, done: float) -> float:
        return float((1 - done) ** self.power)


class CosineScheduler(_Falling):
    """Falls along half a cosine.

    Source: Loshchilov and Hutter, SGDR, ICLR 2017, equation 5 without restarts.
    """

    def _share(self, done: float) -> float:
        return (1 + math.cos(math.pi * done)) / 2
