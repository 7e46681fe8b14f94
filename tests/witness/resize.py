"""Makes tests/golden/image/resize.txt: SHA-256 of the float32 bytes that TensorFlow's resize gives of a picture made by formula.

Run in the repository with TensorFlow 2.15. Lines: sha256 method corners dtype height width channels out_height out_width
Pixel i of the picture (row-major, channel last) is ((i * 2654435761) mod 2^32) >> 24; as float32 divided by 7.
"""
import hashlib
import os

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
import numpy as np
import tensorflow as tf

raw = tf.raw_ops
ops = {'bilinear': raw.ResizeBilinear, 'nearest': raw.ResizeNearestNeighbor, 'bicubic': raw.ResizeBicubic}
sizes = [(375, 500, 3, 300, 300), (375, 500, 3, 600, 800), (31, 17, 3, 640, 352), (64, 48, 1, 33, 47), (5, 9, 2, 5, 3),
         (1, 1, 3, 4, 5), (97, 89, 3, 1, 1), (120, 160, 3, 120, 160), (333, 77, 3, 97, 224)]
with open('tests/golden/image/resize.txt', 'w') as f:
    f.write('# tests/witness/resize.py, TensorFlow %s\n' % tf.__version__)
    for h, w, c, oh, ow in sizes:
        i = np.arange(h * w * c, dtype=np.uint64)
        u8 = ((i * np.uint64(2654435761) & np.uint64(0xffffffff)) >> np.uint64(24)).astype(np.uint8).reshape(1, h, w, c)
        for dtype, image in (('u8', u8), ('f32', u8.astype(np.float32) / np.float32(7))):
            for method in ('bilinear', 'nearest', 'bicubic', 'area'):
                for corners, align, half in (('legacy', False, False), ('align', True, False), ('half', False, True)):
                    if method == 'area' and half:
                        continue
                    if (h, w) == (1, 1) and align and method in ('area', 'bicubic'):
                        continue  # a scale of 0: TensorFlow divides by it
                    if method == 'area':
                        out = raw.ResizeArea(images=image, size=[oh, ow], align_corners=align)
                    else:
                        out = ops[method](images=image, size=[oh, ow], align_corners=align, half_pixel_centers=half)
                    out = out.numpy().astype('<f4')
                    f.write('%s %s %s %s %d %d %d %d %d\n' % (hashlib.sha256(out.tobytes()).hexdigest(), method, corners,
                                                            dtype, h, w, c, oh, ow))
