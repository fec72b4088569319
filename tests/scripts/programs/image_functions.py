# SPDX-License-Identifier: Apache-2.0
"""mx.image: decoding, augmenters and an iterator over files."""
import struct
import zlib

import mxnet as mx
import numpy as np


def png(pixels):
    """The bytes of a PNG with these pixels (height, width, 3)."""
    def chunk(kind, body):
        return struct.pack('>I', len(body)) + kind + body + struct.pack('>I', zlib.crc32(kind + body) & 0xffffffff)
    rows = b''.join(b'\0' + row.tobytes() for row in pixels)
    head = struct.pack('>IIBBBBB', pixels.shape[1], pixels.shape[0], 8, 2, 0, 0, 0)
    return b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', head) + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b'')


rng = np.random.RandomState(8)
pixels = rng.randint(0, 255, (20, 30, 3)).astype('uint8')
img = mx.image.imdecode(png(pixels))
print(img.shape, img.dtype.__name__, bool((img.asnumpy() == pixels).all()))
bgr = mx.image.imdecode(png(pixels), to_rgb=0)
print(bool((bgr.asnumpy()[:, :, ::-1] == pixels).all()), mx.image.imdecode(png(pixels), flag=0).shape)

print(mx.image.resize_short(img, 10).shape, mx.image.imresize(img, 7, 9).shape)
crop, where = mx.image.center_crop(img, (8, 6))
print(crop.shape, where, bool((crop.asnumpy() == pixels[7:13, 11:19]).all()))
print(mx.image.fixed_crop(img, 2, 3, 5, 4).shape, mx.image.random_crop(img, (9, 9))[0].shape)
norm = mx.image.color_normalize(img.astype('float32'), mx.nd.array([100, 110, 120]), mx.nd.array([50, 60, 70]))
print('%.4f' % norm.mean().asscalar())

augs = mx.image.CreateAugmenter((3, 8, 8), resize=12, rand_mirror=False, mean=True, std=True)
print([type(aug).__name__ for aug in augs])
out = img
for aug in augs:
    out = aug(out)
print(out.shape, out.dtype.__name__)

names = []
for number in range(5):
    name = 'img%d.png' % number
    with open(name, 'wb') as f:
        f.write(png(rng.randint(0, 255, (16, 16, 3)).astype('uint8')))
    names.append([float(number), name])
print(mx.image.imread('img0.png').shape)
it = mx.image.ImageIter(batch_size=2, data_shape=(3, 12, 12), imglist=names, path_root='.', shuffle=False)
for batch in it:
    print(batch.data[0].shape, batch.label[0].asnumpy().tolist()[: 2 - batch.pad], batch.pad)
