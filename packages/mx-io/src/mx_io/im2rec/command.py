# SPDX-License-Identifier: Apache-2.0
"""`mx im2rec`: MXNet's im2rec with its options."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from mx_core.errors import MXNetError
from mx_io.codecs import writable_extensions
from mx_io.im2rec.listing import make_list, read_list
from mx_io.im2rec.pack import pack


@click.command("im2rec")
@click.argument("prefix")
@click.argument("root", type=click.Path(exists=True, file_okay=False))
@click.option("--list", "listing", is_flag=True, help="Write list files instead of record files.")
@click.option(
    "--exts",
    multiple=True,
    help="List: extensions of images; .jpeg, .jpg, .png and those of codecs that plug-ins bring, by default.",
)
@click.option("--chunks", default=1, show_default=True, help="List: number of files of equal size.")
@click.option("--train-ratio", default=1.0, show_default=True, help="List: share for training.")
@click.option("--test-ratio", default=0.0, show_default=True, help="List: share for testing.")
@click.option("--recursive/--no-recursive", default=False, help="List: each subfolder of ROOT is a class.")
@click.option(
    "--shuffle/--no-shuffle", default=True, show_default=True, help="List: shuffle, with a fixed seed."
)
@click.option("--pass-through", is_flag=True, help="Pack the files unchanged.")
@click.option(
    "--resize", default=0, show_default=True, help="New length of the shorter side; 0 keeps the size."
)
@click.option("--center-crop", is_flag=True, help="Crop the largest square from the centre.")
@click.option("--quality", default=95, show_default=True, help="JPEG 1 to 100; PNG compression level 0 to 9.")
@click.option("--num-thread", default=1, show_default=True, help="Threads that decode and encode.")
@click.option("--color", type=click.Choice(["-1", "0", "1"]), default="1", show_default=True,
              help="1: colour, 0: grey, -1: as stored.")  # fmt: skip
@click.option("--encoding", default=".jpg", show_default=True,
              help="Format of packed images: an extension that an installed codec writes.")  # fmt: skip
@click.option("--pack-label", is_flag=True, help="Pack all labels of the list, not only the first.")
@click.option("--resume", is_flag=True, help="Keep what is done when it is ended, and go on with that.")
@click.option("--on-error", type=click.Choice(["skip", "fail"]), default="skip", show_default=True,
              help="Skip an image that cannot be read, or end with an error.")  # fmt: skip
def im2rec(prefix: str, root: str, listing: bool, **options: Any) -> None:
    """Write list files, or pack images into record files.

    With --list it writes list files. Otherwise it packs the images of the list files into record files.

    PREFIX*.lst are the list files, PREFIX*.rec and PREFIX*.idx the record files. ROOT is the folder of the images.
    """
    try:
        if listing:
            chosen = ("exts", "chunks", "train_ratio", "test_ratio", "recursive", "shuffle")
            for path in make_list(prefix, root, **{name: options[name] for name in chosen}):
                click.echo(f"{path}: {len(read_list(path))} images")
            return
        if options["encoding"] not in (known := writable_extensions()):
            raise click.ClickException(
                f"--encoding: expected one of {', '.join(known)}, got {options['encoding']!r}"
            )
        lists = _lists(Path(prefix))
        for lst in lists:
            _pack_one(lst, root, options)
    except BrokenPipeError:  # nobody reads on, which click takes for the end
        raise
    except (MXNetError, OSError) as error:
        raise click.ClickException(str(error)) from error


def _lists(prefix: Path) -> list[Path]:
    folder, start = (prefix, "") if prefix.is_dir() else (prefix.parent, prefix.name)
    found = sorted(path for path in folder.glob("*.lst") if path.name.startswith(start))
    if not found:
        raise click.ClickException(
            f"expected list files {folder / start}*.lst, found none; write them with --list"
        )
    return found


def _pack_one(lst: Path, root: str, options: dict[str, Any]) -> None:
    names = (
        "resize",
        "center_crop",
        "quality",
        "encoding",
        "pass_through",
        "pack_label",
        "num_thread",
        "resume",
    )
    entries = read_list(lst)
    with click.progressbar(length=len(entries), label=lst.name, file=sys.stderr) as bar:
        report = pack(
            lst,
            root,
            color=int(options["color"]),
            on_error="skip" if options["on_error"] == "skip" else "raise",
            progress=bar.update,
            **{name: options[name] for name in names},
        )
    for path, error in report.skipped:
        click.echo(f"skipped {path}: {error}", err=True)
    click.echo(f"{report.record}: {report.written} records, {len(report.skipped)} skipped")
