# SPDX-License-Identifier: Apache-2.0
"""Images in record files and folders."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

from mx_core.errors import FileFormatError
from mx_core.files import naming
from mx_gluon.data.dataset import Dataset, RecordFileDataset
from mx_io import image
from mx_io.recordio import unpack
from mx_ndarray import NDArray

Transform = Callable[[NDArray, Any], Any]
_ENDS = (".jpg", ".jpeg", ".png")


class ImageRecordDataset(RecordFileDataset):
    """Images and labels of an indexed record file that `im2rec` wrote.

    Threads: any.

    Parameters
    ----------
    filename : path
        `NAME.rec`; `NAME.idx` is its index.
    flag : int
        1 for colours, 0 for gray.
    transform : callable, optional
        From image (height, width, channels) and label to a sample.
    """

    def __init__(
        self, filename: str | os.PathLike[str], flag: int = 1, transform: Transform | None = None
    ) -> None:
        super().__init__(filename)
        self._flag = flag
        self._transform = transform

    def __getitem__(self, idx: Any) -> Any:
        record = super().__getitem__(idx)
        try:
            header, content = unpack(record)
            decoded = image.imdecode(content, self._flag)
        except FileFormatError as error:
            raise FileFormatError(f"{self.filename}: record {self._record.keys[idx]}: {error}") from error
        return (decoded, header.label) if self._transform is None else self._transform(decoded, header.label)


class ImageFolderDataset(Dataset):
    """Images in folders, each folder a class: `root/car/0001.jpg`.

    Threads: any.

    Parameters
    ----------
    root : path
    flag : int
        1 for colours, 0 for gray.
    transform : callable, optional
        From image (height, width, channels) and label to a sample.

    Attributes
    ----------
    synsets : list of str
        Names of the classes in order.
    items : list of (str, int)
        Files with the numbers of their classes.
    """

    def __init__(
        self, root: str | os.PathLike[str], flag: int = 1, transform: Transform | None = None
    ) -> None:
        self._root = os.path.expanduser(root)
        self._flag = flag
        self._transform = transform
        self.synsets: list[str] = []
        self.items: list[tuple[str, int]] = []
        with naming(self._root):
            self._list()

    def _list(self) -> None:
        for folder in sorted(os.listdir(self._root)):
            path = os.path.join(self._root, folder)
            if not os.path.isdir(path):
                warnings.warn(f"Ignoring {path}, which is not a directory.", stacklevel=3)
                continue
            for name in sorted(os.listdir(path)):
                file, end = os.path.join(path, name), os.path.splitext(name)[1]
                if end.lower() in _ENDS:
                    self.items.append((file, len(self.synsets)))
                else:
                    warnings.warn(
                        f"Ignoring {file} of type {end}. Only support {', '.join(_ENDS)}", stacklevel=3
                    )
            self.synsets.append(folder)

    def __getitem__(self, idx: Any) -> Any:
        file, label = self.items[idx]
        decoded = image.imread(file, self._flag)
        return (decoded, label) if self._transform is None else self._transform(decoded, label)

    def __len__(self) -> int:
        return len(self.items)
