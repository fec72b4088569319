# SPDX-License-Identifier: Apache-2.0
"""`mx rec`: check, repair, list and index record files."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
import numpy as np

from mx_core.errors import MXNetError
from mx_io import codecs
from mx_io.packing import unpack_view
from mx_io.rec import files
from mx_io.recordio import MXRecordIO, build_index, read_index

_FILE = click.Path(exists=True, dir_okay=False)
#: Labels that `stat` prints at most.
_MOST_LABELS = 20


@contextmanager
def _errors_told() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:  # nobody reads on, which click takes for the end
        raise
    except (MXNetError, OSError) as error:
        raise click.ClickException(str(error)) from error


@click.group("rec")
def rec() -> None:
    """Check, repair, list and index record files (.rec)."""


def _index_of(path: str, index: str | None) -> str | None:
    """The index that is named, or that lies beside the file."""
    beside = files.index_beside(path)
    return index or (beside if os.path.exists(beside) else None)


def _told(found: files.Check) -> None:
    for begin, end, reason in found.damages:
        click.echo(f"bytes {begin} to {end}: {reason}")
    for offset, reason in found.unreadable:
        click.echo(f"record at byte {offset}: {reason}")
    for reason in found.misread:
        click.echo(f"index: {reason}")
    for key, offset in found.lost:
        click.echo(f"index: key {key}: no intact record at byte {offset}")
    if found.unlisted:
        click.echo(f"index: {found.unlisted} records are not in it")


@rec.command("check")
@click.argument("path", type=_FILE)
@click.option("--idx", type=_FILE, help="Index of the file; the one beside it by default.")
@click.option("--images/--no-images", default=False, help="Decode every image, too.")
def check_command(path: str, idx: str | None, images: bool) -> None:
    """Tell what is damaged in PATH.

    It reads every byte and compares the index; what is in images shows with --images only. It ends with 1 if anything
    is wrong.
    """
    with _errors_told():
        found = files.check(path, _index_of(path, idx), images)
    _told(found)
    lost = sum(end - begin for begin, end, _ in found.damages)
    kept = f"{path}: {len(found.offsets)} intact records, {len(found.damages)} damaged places of {lost} bytes"
    click.echo(kept if images else f"{kept}; images were not decoded, which --images does")
    sys.exit(0 if found.intact else 1)


@rec.command("repair")
@click.argument("path", type=_FILE)
@click.argument("target", type=click.Path(dir_okay=False))
@click.option(
    "--idx", type=_FILE, help="Index of the damaged file, for its keys; the one beside it by default."
)
@click.option("--images/--no-images", default=False, help="Leave out images that cannot be decoded, too.")
def repair_command(path: str, target: str, idx: str | None, images: bool) -> None:
    """Copy what is intact in PATH into TARGET.

    The index of TARGET is written beside it. Keys are those of the index of PATH, or numbers.
    """
    index = files.index_beside(target)
    with _errors_told():
        found = files.repair(path, target, index, _index_of(path, idx), images)
    _told(found)
    click.echo(f"{target}: {len(found.offsets) - len(found.unreadable)} records; {index}")


@rec.command("cat")
@click.argument("path", type=_FILE)
@click.argument("keys", nargs=-1)
@click.option("--idx", type=_FILE, help="Index of the file, for KEYS; the one beside it by default.")
@click.option(
    "--payload", is_flag=True, help="Write the image (without its header) of one record, not a line."
)
def cat_command(path: str, keys: tuple[str, ...], idx: str | None, payload: bool) -> None:
    """Print records of PATH as lines of JSON.

    It prints all of them, or those of KEYS.
    """
    with _errors_told(), MXRecordIO(path, "r") as record:
        offsets = _chosen(record, path, keys, idx)
        if payload and len(offsets) != 1:
            raise click.ClickException(f"--payload: expected one key, got {len(offsets)} records")
        for offset, content in files.records(record, offsets):
            if payload:
                click.echo(bytes(unpack_view(content)[1]), nl=False)
            else:
                click.echo(json.dumps(_line(offset, content)))


def _chosen(record: MXRecordIO, path: str, keys: tuple[str, ...], idx: str | None) -> list[int]:
    if not keys:
        return record.scan()[0]
    index = _index_of(path, idx)
    if index is None:
        offsets = record.scan()[0]
        listed = {str(number): offset for number, offset in enumerate(offsets)}
    else:
        listed = read_index(index, str)
    missing = [key for key in keys if key not in listed]
    if missing:
        raise click.ClickException(f"{index or path}: expected one of {len(listed)} keys, got {missing[0]!r}")
    return [listed[key] for key in keys]


def _line(offset: int, content: bytes) -> dict[str, Any]:
    line: dict[str, Any] = {"offset": offset, "bytes": len(content)}
    try:
        header, image = unpack_view(content)
    except MXNetError:
        return line
    label = np.asarray(header.label, np.float64).tolist()
    return line | {"id": header.id, "label": label, "format": codecs.recognised(image)}


@rec.command("stat")
@click.argument("path", type=_FILE)
def stat_command(path: str) -> None:
    """Print counts, sizes, formats and labels of PATH."""
    with _errors_told():
        found = files.statistics(path)
    mean = found.payload_bytes / max(1, found.records)
    click.echo(f"records  {found.records}")
    click.echo(
        f"bytes    {found.payload_bytes} (each {found.smallest} to {found.largest}, {mean:.0f} on average)"
    )
    click.echo("formats  " + ", ".join(f"{name} {count}" for name, count in found.formats.most_common()))
    if found.label_widths:
        widths = ", ".join(
            f"{width} ({count} records)" for width, count in sorted(found.label_widths.items())
        )
        click.echo(f"labels   {widths}")
        for label, count in sorted(found.labels.items())[:_MOST_LABELS]:
            click.echo(f"  {label:g}: {count}")
        if len(found.labels) > _MOST_LABELS:
            click.echo(f"  and {len(found.labels) - _MOST_LABELS} others")


@click.command("rec2idx")
@click.argument("record", type=_FILE)
@click.argument("index", type=click.Path(dir_okay=False))
def rec2idx(record: str, index: str) -> None:
    """Write the index of a record file.

    It has the keys 0, 1, 2, …; `mx rec index` does the same.
    """
    with _errors_told():
        count = build_index(record, index)
    click.echo(f"{index}: {count} records")


@rec.command("index")
@click.argument("path", type=_FILE)
@click.argument("idx", type=click.Path(dir_okay=False), required=False)
def index_command(path: str, idx: str | None) -> None:
    """Write the index of PATH.

    It has the keys 0, 1, 2, …, and is IDX or lies beside PATH.
    """
    target = idx or files.index_beside(path)
    with _errors_told():
        count = build_index(path, target)
    click.echo(f"{target}: {count} records")
