# SPDX-License-Identifier: Apache-2.0
"""Recognition of image formats, separate from the codecs so that it imports no decoder."""

from __future__ import annotations


def is_jpeg(head: bytes) -> bool:
    """Whether a payload begins as a JPEG file does."""
    return head.startswith(b"\xff\xd8\xff")


def is_png(head: bytes) -> bool:
    """Whether a payload begins as a PNG file does."""
    return head.startswith(b"\x89PNG\r\n\x1a\n")


def is_bmp(head: bytes) -> bool:
    """Whether a payload begins as a BMP file does."""
    return head.startswith(b"BM")


def is_webp(head: bytes) -> bool:
    """Whether a payload begins as a WebP file does."""
    return head[:4] == b"RIFF" and head[8:12] == b"WEBP"


def is_npy(head: bytes) -> bool:
    """Whether a payload begins as a .npy file does."""
    return head.startswith(b"\x93NUMPY")
