# SPDX-License-Identifier: Apache-2.0
"""`ImageDetIter`: images with boxes around objects, through a list of augmenters that change both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

from mx_core.errors import ArgumentError, DTypeError, FileFormatError, ShapeError
from mx_io.arrays import to_numpy
from mx_io.image.detection import labels
from mx_io.image.detection.augmenters import DetAugmenter
from mx_io.image.detection.create import CreateDetAugmenter
from mx_io.image.detection.drawing import drawn
from mx_io.image.iterator import ImageIter
from mx_io.iterators.base import DataDesc


class ImageDetIter(ImageIter):
    """Iterate over images with boxes around objects.

    Parameters
    ----------
    batch_size : int
    data_shape : (channels, height, width)
    path_imgrec, path_imgidx, path_imglist, path_root, shuffle, part_index, num_parts, imglist
        As of `ImageIter`. A label is a row of numbers: the length of the head (2 or more), the numbers of an
        object (5 or more), the rest of the head, and the objects: class, left, upper, right and lower border as
        shares of the image, and what else belongs to one.
    aug_list : list of DetAugmenter, optional
        Made by `CreateDetAugmenter(data_shape, **kwargs)` by default.
    data_name, label_name : str
    last_batch_handle : {"pad", "discard", "roll_over"}

    Attributes
    ----------
    label_shape : (int, int)
        Most objects of an image, and numbers of an object. All labels are read at construction to find it.

    Raises
    ------
    FileFormatError
        At construction: a label is malformed, or has no object with an area; names the image.

    Notes
    -----
    Labels of a batch are (batch_size, *label_shape); what an image has less is -1. Images that cannot be decoded, or
    whose objects are all of a class below 0, are skipped and named in a warning of the logger `mx_io.image`.
    """

    def __init__(
        self,
        batch_size: int,
        data_shape: Sequence[int],
        path_imgrec: str | None = None,
        path_imglist: str | None = None,
        path_root: str | None = None,
        path_imgidx: str | None = None,
        shuffle: bool = False,
        part_index: int = 0,
        num_parts: int = 1,
        aug_list: Sequence[DetAugmenter] | None = None,
        imglist: Sequence[Sequence[Any]] | None = None,
        data_name: str = "data",
        label_name: str = "label",
        last_batch_handle: str = "pad",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            batch_size,
            data_shape,
            path_imgrec=path_imgrec,
            path_imglist=path_imglist,
            path_root=path_root,
            path_imgidx=path_imgidx,
            shuffle=shuffle,
            part_index=part_index,
            num_parts=num_parts,
            aug_list=[],
            imglist=imglist,
            data_name=data_name,
            label_name=label_name,
            last_batch_handle=last_batch_handle,
        )
        self._default = None if aug_list is not None else kwargs
        self.auglist: list[Any] = list(
            CreateDetAugmenter(self.data_shape, **kwargs) if aug_list is None else aug_list
        )
        self.label_shape = self._found_label_shape()
        self._describe_label()

    def _describe_label(self) -> None:
        name = self.provide_label[0].name
        self.provide_label = [DataDesc(name, (self.batch_size, *self.label_shape), np.float32)]

    def _found_label_shape(self) -> tuple[int, int]:
        most, width = 0, labels.LEAST_WIDTH
        self.reset()
        try:
            while True:
                label, _ = self.next_sample()
                try:
                    objects = labels.parse(label)
                except FileFormatError as error:
                    raise FileFormatError(f"{error}; image {self.seq[self.cur - 1]}") from error
                most, width = max(most, len(objects)), max(width, objects.shape[1])
        except StopIteration:
            self.reset()
        return most, width

    # ---- shapes ----

    def check_label_shape(self, label_shape: Sequence[int]) -> None:
        """ShapeError unless labels of the present shape fit into another one, with objects of as many numbers."""
        if len(label_shape) != 2:
            raise ShapeError(
                f"[ImageDetIter] label_shape: expected (objects, numbers of one), got {tuple(label_shape)}"
            )
        if label_shape[0] < self.label_shape[0]:
            raise ShapeError(
                f"[ImageDetIter] label_shape: expected {self.label_shape[0]} objects or more, got {label_shape[0]}"
            )
        if label_shape[1] != self.label_shape[1]:
            raise ShapeError(
                f"[ImageDetIter] label_shape: expected objects of {self.label_shape[1]} numbers, got {label_shape[1]}"
            )

    def reshape(
        self, data_shape: Sequence[int] | None = None, label_shape: Sequence[int] | None = None
    ) -> None:
        """Give batches another shape, from the next one on; default augmenters are made anew for it."""
        if data_shape is not None:
            self.check_data_shape(data_shape)
        if label_shape is not None:
            self.check_label_shape(label_shape)
            self.label_shape = (int(label_shape[0]), int(label_shape[1]))
            self._describe_label()
        if data_shape is not None:
            self._change_data_shape(data_shape)
            if self._default is not None:
                self.auglist = list(CreateDetAugmenter(self.data_shape, **self._default))

    def sync_label_shape(self, it: ImageDetIter, verbose: bool = False) -> ImageDetIter:
        """Give this and another iterator (of a training and a validation set) labels of the larger shape of both.

        Returns
        -------
        ImageDetIter
            The other one.
        """
        if not isinstance(it, ImageDetIter):
            raise DTypeError(f"[ImageDetIter] it: expected an ImageDetIter, got {type(it).__name__}")
        larger = (max(self.label_shape[0], it.label_shape[0]), self.label_shape[1])
        it.check_label_shape(larger)
        for each in (self, it):
            if verbose and each.label_shape != larger:
                print(f"label_shape {each.label_shape} becomes {larger}")
            each.reshape(None, larger)
        return it

    # ---- examples ----

    def _augmented(self, label: Any, image: Any) -> tuple[Any, Any]:
        objects = labels.parse(label)
        image, objects = self.augmentation_transform(image, objects)
        objects = np.asarray(to_numpy(objects), np.float32)
        if objects.ndim != 2 or objects.shape[1] < labels.LEAST_WIDTH:
            raise ShapeError(
                f"[ImageDetIter] expected augmenters to give a label (objects, 5 or more), got {objects.shape}"
            )
        if not ((objects[:, 0] >= 0) & labels.with_area(objects)).any():
            raise FileFormatError(
                "[ImageDetIter] label: expected an object of a class of 0 or more and of positive area, got none"
            )
        if objects.shape[0] > self.label_shape[0] or objects.shape[1] > self.label_shape[1]:
            raise ShapeError(
                f"[ImageDetIter] label: expected at most {self.label_shape} (objects, numbers), got {objects.shape}"
            )
        return objects, image

    def augmentation_transform(self, data: Any, label: Any = None) -> Any:
        """Image and label after all augmenters."""
        for augmenter in self.auglist:
            data, label = augmenter(data, label)
        return data, label

    def _stacked_labels(self, examples: Sequence[Any]) -> np.ndarray[Any, Any]:
        stacked = np.full((len(examples), *self.label_shape), -1, np.float32)
        for place, objects in zip(stacked, examples, strict=True):
            place[: objects.shape[0], : objects.shape[1]] = objects
        return stacked

    # ---- pictures ----

    def draw_next(
        self,
        color: Sequence[int] | None = None,
        thickness: int = 2,
        mean: Any = None,
        std: Any = None,
        clip: bool = True,
        waitKey: int | None = None,
        window_name: str = "draw_next",
        id2labels: Mapping[int, str] | None = None,
    ) -> Iterator[np.ndarray[Any, Any]]:
        """The images of the epoch that is begun, after augmentation, with their boxes drawn.

        Parameters
        ----------
        color : (red, green, blue), optional
            Of all boxes; one a class by default.
        thickness : int
            Of the lines, in pixels.
        mean, std : True or array, optional
            What normalised the images; True means ImageNet's.
        clip : bool
            Whether values are limited to 0 to 255.
        waitKey, window_name
            No window is shown here: only None is taken, and a program shows the pictures itself.
        id2labels : dict, optional
            Names of classes, written at their boxes.

        Returns
        -------
        iterator of ndarray of float32 or uint8, shape (height, width, channels)
        """
        if waitKey is not None:
            raise ArgumentError(
                f"[ImageDetIter] waitKey: expected None, got {waitKey!r}: no window {window_name!r} is shown; save "
                "the pictures that draw_next gives, or show them"
            )
        return self._drawn(color, thickness, mean, std, clip, id2labels or {})

    def _drawn(
        self, color: Any, thickness: int, mean: Any, std: Any, clip: bool, names: Any
    ) -> Iterator[np.ndarray[Any, Any]]:
        while True:
            try:
                objects, planes = self._example()
            except StopIteration:
                return
            yield drawn(planes.transpose(1, 2, 0), objects, color, thickness, mean, std, clip, names)

    def __iter__(self) -> Self:
        return self
