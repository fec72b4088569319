# SPDX-License-Identifier: Apache-2.0
"""Hook implementations of mx-io: its codecs, iterators, augmenters and commands.

Targets are named by text, so that loading the plug-ins imports no image library.
"""

from __future__ import annotations

from mx_core.plugins.hookspecs import PluginInfo, hookimpl
from mx_core.plugins.registrars import (
    AugmenterRegistrar,
    CommandRegistrar,
    DataIterRegistrar,
    ImageCodecRegistrar,
)

MX_PLUGIN = PluginInfo(summary="RecordIO, data iterators and the image pipeline")
MX_HOOK_API = (1, 0)

_ITERATORS = {
    "CSVIter": "mx_io.iterators.csv:CSVIter",
    "ImageDetRecordIter": "mx_io.iterators.image_det_record:ImageDetRecordIter",
    "ImageRecordInt8Iter": "mx_io.iterators.image_record:ImageRecordInt8Iter",
    "ImageRecordIter": "mx_io.iterators.image_record:ImageRecordIter",
    "ImageRecordIter_v1": "mx_io.iterators.image_record:ImageRecordIter",  # of MXNet's earlier versions
    "ImageRecordUInt8Iter": "mx_io.iterators.image_record:ImageRecordUInt8Iter",
    "ImageRecordUInt8Iter_v1": "mx_io.iterators.image_record:ImageRecordUInt8Iter",
    "ImageSourceIter": "mx_io.iterators.image_batches:ImageSourceIter",
    "MNISTIter": "mx_io.iterators.mnist:MNISTIter",
    "NDArrayIter": "mx_io.iterators.ndarray_iter:NDArrayIter",
}
_AUGMENTERS = (
    "BrightnessJitterAug", "CastAug", "CenterCropAug", "ColorJitterAug", "ColorNormalizeAug",
    "ContrastJitterAug", "ForceResizeAug", "HorizontalFlipAug", "HueJitterAug", "LightingAug",
    "RandomCropAug", "RandomGrayAug", "RandomOrderAug", "RandomSizedCropAug", "ResizeAug",
    "SaturationJitterAug", "SequentialAug",
)  # fmt: skip


@hookimpl
def mx_register_image_codecs(registry: ImageCodecRegistrar) -> None:
    """JPEG, PNG, BMP, WebP and raw pixels."""
    signatures = "mx_io.codecs.signatures"
    registry.add("jpeg", (".jpg", ".jpeg", ".jpe"), f"{signatures}:is_jpeg",
                 "mx_io.codecs.jpeg:decode", "mx_io.codecs.jpeg:encode")  # fmt: skip
    registry.add("png", (".png",), f"{signatures}:is_png",
                 "mx_io.codecs.pillow:decode_png", "mx_io.codecs.pillow:encode_png")  # fmt: skip
    registry.add("bmp", (".bmp",), f"{signatures}:is_bmp",
                 "mx_io.codecs.pillow:decode_bmp", "mx_io.codecs.pillow:encode_bmp")  # fmt: skip
    registry.add("webp", (".webp",), f"{signatures}:is_webp",
                 "mx_io.codecs.pillow:decode_webp", "mx_io.codecs.pillow:encode_webp")  # fmt: skip
    registry.add(
        "npy", (".npy",), f"{signatures}:is_npy", "mx_io.codecs.npy:decode", "mx_io.codecs.npy:encode"
    )


@hookimpl
def mx_register_data_iters(registry: DataIterRegistrar) -> None:
    """The iterators that read files or arrays."""
    for name, target in _ITERATORS.items():
        registry.add(name, target)


@hookimpl
def mx_register_augmenters(registry: AugmenterRegistrar) -> None:
    """The augmenters of `mx_io.image`."""
    for name in _AUGMENTERS:
        registry.add(name, f"mx_io.image.augmenters:{name}")


@hookimpl
def mx_register_commands(registry: CommandRegistrar) -> None:
    """`mx im2rec`, `mx rec` and `mx rec2idx`."""
    registry.add("im2rec", "mx_io.im2rec.command:im2rec")
    registry.add("rec2idx", "mx_io.rec.command:rec2idx")
    registry.add("rec", "mx_io.rec.command:rec")
