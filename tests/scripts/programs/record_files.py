# SPDX-License-Identifier: Apache-2.0
"""Record files: written, read by key, and by ImageRecordIter."""
import struct
import zlib

import mxnet as mx
import numpy as np


def png(pixels):
    def chunk(kind, body):
        return struct.pack('>I', len(body)) + kind + body + struct.pack('>I', zlib.crc32(kind + body) & 0xffffffff)
    rows = b''.join(b'\0' + row.tobytes() for row in pixels)
    head = struct.pack('>IIBBBBB', pixels.shape[1], pixels.shape[0], 8, 2, 0, 0, 0)
    return b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', head) + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b'')


record = mx.recordio.MXRecordIO('plain.rec', 'w')
for i in range(5):
    record.write(b'record_%d' % i)
record.close()
record = mx.recordio.MXRecordIO('plain.rec', 'r')
for i in range(3):
    print(record.read())
record.reset()
print(record.read())
record.close()

rng = np.random.RandomState(9)
images = rng.randint(0, 255, (6, 10, 10, 3)).astype('uint8')
writer = mx.recordio.MXIndexedRecordIO('images.idx', 'images.rec', 'w')
for i, pixels in enumerate(images):
    header = mx.recordio.IRHeader(0, float(i % 3), i, 0)
    writer.write_idx(i, mx.recordio.pack(header, png(pixels)))
writer.close()

reader = mx.recordio.MXIndexedRecordIO('images.idx', 'images.rec', 'r')
header, body = mx.recordio.unpack(reader.read_idx(4))
print(header.label, header.id, header.flag, reader.keys, len(body) == len(png(images[4])))
many = mx.recordio.pack(mx.recordio.IRHeader(0, [1, 2, 3], 7, 0), b'xyz')
print(mx.recordio.unpack(many)[0].label.tolist(), mx.recordio.unpack(many)[1])

it = mx.io.ImageRecordIter(path_imgrec='images.rec', data_shape=(3, 10, 10), batch_size=4, shuffle=False,
                           mean_r=10, mean_g=20, mean_b=30, scale=0.5, preprocess_threads=1)
print([(d.name, d.shape) for d in it.provide_data + it.provide_label])
for batch in it:
    print(batch.data[0].shape, batch.label[0].asnumpy().tolist(), batch.pad)
it.reset()
first = next(it).data[0].asnumpy()[1]
wanted = (images[1].transpose(2, 0, 1) - np.array([10, 20, 30]).reshape(3, 1, 1)) * 0.5
print(bool(np.allclose(first, wanted)))

dataset = mx.gluon.data.vision.ImageRecordDataset('images.rec')
print(len(dataset), dataset[3][0].shape, dataset[3][1])
