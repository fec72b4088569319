# SPDX-License-Identifier: Apache-2.0
"""Training: checkpoints of all that a training is made of, from which it goes on bit for bit."""

from __future__ import annotations

import errno
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mx_core.errors import ArgumentError, ExistingFileError, FileError, FileFormatError, MXNetError
from mx_core.files import naming
from mx_train.checkpoint import content, generators
from mx_train.checkpoint.parts import Arrays, check_states, parts_of
from mx_train.checkpoint.progress import numbers_of, set_numbers
from mx_train.checkpoint.watched import Watched
from mx_train.checkpoint.workers import check_workers, least_of

_NAME = re.compile(r"checkpoint-(\d{10})\.params", re.ASCII)


class Training:
    """The checkpoints of one training in a folder.

    A checkpoint is one file. It has the parameters and auxiliary states of every context, gradients that are being
    summed up (`grad_req="add"`), the optimizer's states with its counts, rate and schedule, the loss scale of mixed
    precision, metrics, the random generators of mx, NumPy and Python, and the place in the data. It appears whole or
    not at all, so a process may be killed at any moment. The same program, started again, goes on from the last one and
    computes the same bits as if it had not been killed.

    Threads: one at a time.

    Parameters
    ----------
    folder : path
        Of the checkpoints of this training alone; it is made if it is not there.
    network : Module, BucketingModule, or Block of Gluon
    trainer : Trainer, optional
        Of the block.
    period : int, optional
        Batches between two checkpoints. There is one at the end of each epoch in any case.
    keep : int
        How many are left; older ones are removed. Damaged ones that a later start passed over get names that end in
        `.passed-over`.
    metric : EvalMetric, optional
        What is measured in a loop of your own; `fit` says its metric itself.
    kvstore : str or KVStore, optional
        The distributed store of the training. All of its workers make one, each with a folder of its own, and go on
        from the last checkpoint that all of them have; later ones get names that end in `.passed-over`. Blocks until
        all have asked.

    Raises
    ------
    ArgumentError    the arguments are something else
    FileError        the folder cannot be made, or a file has its name
    FileFormatError  no checkpoint in the folder can be read, though there are some
    MXNetError       this worker has no checkpoint as early as the last one of another worker

    Examples
    --------
    >>> training = Training("runs/digits", net, trainer, period=100)
    >>> data = training.watch(loader)
    >>> for epoch in range(training.epoch, 10):
    ...     for x, y in data:
    ...         with autograd.record():
    ...             loss = loss_function(net(x), y)
    ...         loss.backward()
    ...         trainer.step(len(x))
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        network: Any,
        trainer: Any = None,
        *,
        period: int | None = None,
        keep: int = 2,
        metric: Any = None,
        kvstore: Any = None,
    ) -> None:
        for name, value in (("period", period), ("keep", keep)):
            if value is not None and (not isinstance(value, int) or value < 1):
                raise ArgumentError(f"[checkpoint.Training] {name}: expected at least 1, got {value!r}")
        if kvstore is not None:
            check_workers(kvstore, keep)
        self._parts = parts_of(network, trainer)
        self.folder = Path(folder)
        try:
            with naming(self.folder):
                self.folder.mkdir(parents=True, exist_ok=True)
        except ExistingFileError as error:
            raise FileError.of(errno.ENOTDIR, str(self.folder)) from error
        self.period, self.keep, self.metric = period, keep, metric
        self._step = 0
        #: the rate that the program gave its optimizer, before any batch
        self._given_rate: float | None = None
        self._place: dict[str, Any] = {"epoch": 0, "batch": 0}
        self._arrays: Arrays = {}
        self._states = b""
        #: the file of the checkpoint that waits
        self._path = self.folder
        #: damaged files
        self._passed_over: set[Path] = set()
        #: whether the checkpoint waits for its network
        self._waiting = self._find()
        if kvstore is not None:
            self._agree(kvstore)

    # ---- where the training is ----

    @property
    def epoch(self) -> int:
        """The number of the epoch in which the training is; 0 at first."""
        return int(self._place["epoch"])

    @property
    def batch(self) -> int:
        """How many batches of this epoch are done."""
        return int(self._place["batch"])

    @property
    def resumed(self) -> bool:
        """Whether there was a checkpoint to go on from, which has not been taken yet."""
        return self._waiting

    def watch(self, data: Any) -> Watched:
        """The data of the training, with the place at which it is.

        Each iteration over what it gives is an epoch; the first one begins with the batch after the last checkpoint.
        A checkpoint is written when the next batch is asked for, so that all has been done with the batch before.

        Parameters
        ----------
        data : DataIter, DataLoader or other iterable
            Of which a new one gives the same batches, from the same states of random generators. An iterator with
            `reset` has `state_dict` and `load_state_dict`, or else former epochs are read again.

        Returns
        -------
        iterable
            It has the attributes of `data`, too, and is a `train_data` of `Module.fit`.
        """
        return Watched(self, data)

    # ---- taking a checkpoint ----

    def _files(self) -> list[tuple[int, Path]]:
        with naming(self.folder):
            found = [(_NAME.fullmatch(path.name), path) for path in self.folder.iterdir()]
        return sorted((int(match[1]), path) for match, path in found if match)

    def _agree(self, kvstore: Any) -> None:
        """Goes back to the last checkpoint that all workers have: some may have been killed before they wrote more."""
        mine, common = self._step, least_of(kvstore, self._step)
        if common == mine:
            return
        later = [path for step, path in self._files() if step > common]
        if common == 0 and len(later) == 1:  # the first one, which others did not come to write
            self._step, self._path, self._waiting = 0, self.folder, False
            self._place, self._states, self._arrays = {"epoch": 0, "batch": 0}, b"", {}
        elif not (common and self._find(common)):
            what = (
                "another worker has none"
                if common == 0
                else f"the last one of another worker is of step {common}"
            )
            raise MXNetError(
                f"[checkpoint.Training] {self.folder}: the last checkpoint is of step {mine}, and {what}: has its "
                "folder been lost? Give it back, or remove the folders of all workers to begin anew"
            )
        for path in later:
            self._set_aside(path)

    def _find(self, step: int | None = None) -> bool:
        """Reads the last checkpoint, or that of a step, if there is one."""
        files = [(each, path) for each, path in self._files() if step in (None, each)]
        problem: FileFormatError | None = None
        for _, path in reversed(files):
            try:
                self._place, self._states, self._arrays = content.load(path)
            except FileFormatError as error:
                problem = problem or error
                self._passed_over.add(path)
                warnings.warn(f"[checkpoint.Training] passed over: {error}", stacklevel=3)
            else:
                self._step, self._path = self._place["step"], path
                return True
        if problem is not None:
            raise problem
        return False

    def restore(self, optimizer: Any = None) -> bool:
        """Gives a Module the parameters of the last checkpoint, if there is one.

        A loop of your own with a KVStore calls it between `init_params` and `init_optimizer`; otherwise the first epoch
        does it. The rest of the checkpoint is taken when the first epoch begins.

        Parameters
        ----------
        optimizer : str or Optimizer, optional
            The one to be used, where the Module has none yet.

        Returns
        -------
        bool
            Whether there is one.

        Raises
        ------
        ArgumentError  it is of another network, or of another optimizer; nothing is taken
        """
        if self._waiting:
            with self._naming():
                check_states(self._parts.optimizer or optimizer, self._states)
            self._parts.give(self._arrays)
        return self._waiting

    def _take(self) -> Mapping[str, Any] | None:
        """Takes the checkpoint that waits; gives the place in the data."""
        if not self.restore():
            return None
        place, given = self._place, self._rate()
        with self._naming():
            self._parts.give_states(self._states, self._path)
            each = getattr(self._parts, "give_each", None)
            if each is not None:
                each(self._arrays)
            optimizer = self._parts.optimizer
            schedule = getattr(optimizer, "lr_scheduler", None)
            if optimizer is not None and schedule is None and place["rate"] is not None:
                optimizer.lr = place["rate"]
            for thing, numbers in (
                (schedule, place["schedule"]), (self._parts.loss_scale, place["scale"]), (self.metric, place["metric"]),
            ):  # fmt: skip
                if thing is not None and numbers is not None:
                    set_numbers(thing, numbers)
        self._waiting, self._arrays, self._states = False, {}, b""
        self._tell_of_rate(given, place, schedule)
        return place

    def _tell_of_rate(self, given: float | None, place: Mapping[str, Any], schedule: Any) -> None:
        """Warns of a rate that the program has changed since it began: that of the checkpoint counts."""
        before = self._given_rate = given if place["given_rate"] is None else place["given_rate"]
        going_on = "the schedule of the checkpoint" if schedule is not None else place["rate"]
        if given not in (None, before, going_on):
            warnings.warn(
                f"[checkpoint.Training] {self._path}: the program gives its optimizer a learning_rate of {given}, and "
                f"gave {before} at first; the training goes on with {going_on}: set another one in the loop",
                stacklevel=5,
            )

    def _rate(self) -> float | None:
        rate = getattr(self._parts.optimizer, "lr", None)
        return None if rate is None else float(rate)

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """Errors of what a checkpoint holds name its file, and are MXNetErrors."""
        try:
            yield
        except FileError:
            raise
        except MXNetError as error:
            if str(self._path) in str(error):
                raise
            kind = next(
                kind for kind in (ArgumentError, FileFormatError, MXNetError) if isinstance(error, kind)
            )
            raise kind(f"{self._path}: {error}") from error
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
            raise MXNetError(
                f"[checkpoint.Training] {self._path}: what it holds is of another program: {error!r}"
            ) from error

    # ---- writing one ----

    def _begin(self, epoch: int) -> None:
        if self._step == 0:
            self._given_rate = self._rate()
        self._place |= {"epoch": epoch, "batch": 0}

    def _generators(self) -> dict[str, Any]:
        return generators.states(set(self._parts.contexts()))

    def _is_due(self) -> bool:
        """Whether the batches that are done are enough for another checkpoint."""
        return self.period is not None and self._step > 0 and self._step % self.period == 0

    def _write(self, begun: Mapping[str, Any], now: Mapping[str, Any], ended: bool) -> None:
        """Writes a checkpoint.

        Parameters
        ----------
        begun : mapping
            The generators and the iterator at the beginning of the epoch, and what the data are.
        now : mapping
            The generators before the next batch was asked for.
        ended : bool
            Whether the epoch is over.
        """
        optimizer = self._parts.optimizer
        schedule, scale = getattr(optimizer, "lr_scheduler", None), self._parts.loss_scale
        place = {
            "step": self._step, "epoch": self.epoch, "batch": self.batch,
            "ended": ended, "begun": generators.told(begun["generators"]), "now": generators.told(now),
            "iterator": begun["iterator"], "data": begun["data"],
            "rate": self._rate(), "given_rate": self._given_rate,
            "schedule": None if schedule is None else numbers_of(schedule),
            "scale": None if scale is None else numbers_of(scale),
            "metric": None if self.metric is None else numbers_of(self.metric),
        }  # fmt: skip
        path = self.folder / f"checkpoint-{self._step:010}.params"
        if path in self._passed_over:
            self._set_aside(path)
        content.save(path, place, self._parts.states(path), self._parts.arrays())
        self._tidy()

    def _tidy(self) -> None:
        """Removes old checkpoints, and renames those after this one, which were passed over when it was begun from."""
        former = []
        for step, path in self._files():
            if step <= self._step:
                former.append(path)
                continue
            self._set_aside(path)
        for old in former[: -self.keep]:
            with suppress(FileNotFoundError), naming(old):
                old.unlink()

    def _set_aside(self, path: Path) -> None:
        self._passed_over.discard(path)
        with suppress(FileNotFoundError), naming(path):
            path.replace(path.with_name(f"{path.name}.passed-over"))
