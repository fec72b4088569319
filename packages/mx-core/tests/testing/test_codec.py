# SPDX-License-Identifier: Apache-2.0
import struct

import numpy as np
import pytest

from mx_core.errors import FileFormatError
from mx_core.plugins.specs import CodecSpec
from mx_core.testing import CodecContract

HEAD = struct.Struct("<4sHH")


def sniff(head):
    return bytes(head[:4]) == b"RAW3"


def encode(image, quality):
    return HEAD.pack(b"RAW3", *image.shape[:2]) + image.tobytes()


def decode(data, color):
    if len(data) < HEAD.size:
        raise FileFormatError("truncated")
    _, height, width = HEAD.unpack_from(data)
    if not sniff(data) or len(data) != HEAD.size + 3 * height * width:
        raise FileFormatError("damaged")
    image = np.frombuffer(data, np.uint8, offset=HEAD.size).reshape(height, width, 3)
    return image if color == 1 else image[:, :, :1]


class TestRaw(CodecContract):
    def make_codec(self):
        return CodecSpec("raw", (".raw",), sniff, decode, encode)


def careless(data, color):
    return np.zeros((32, 48, 3 if color == 1 else 1), np.uint8)


@pytest.mark.parametrize(
    ("codec", "test"),
    [
        (CodecSpec("c", (".raw",), sniff, careless, encode), "truncated_data_is_an_error_not_a_crash"),
        (CodecSpec("c", (".raw",), sniff, careless, encode), "encode_and_decode_give_the_image_back"),
        (CodecSpec("c", (".raw",), lambda h: True, decode, encode), "it_recognises_its_own_bytes_only"),
        (CodecSpec("c", ("RAW",), sniff, decode, encode), "extensions_have_a_dot_and_are_lower_case"),
    ],
)
def test_faults_are_found(codec, test):
    contract = CodecContract()
    contract.make_codec = lambda: codec
    with pytest.raises(AssertionError):
        getattr(contract, f"test_{test}")()
