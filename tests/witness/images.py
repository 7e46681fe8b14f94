"""Makes tests/golden/image/: odd pictures (seed 1, Pillow) and the SHA-256 of what TensorFlow decodes from them and from photographs.

Run in the repository with TensorFlow 2.15 and Pillow: python tests/witness/images.py [SHARED]   (SHARED: default ../shared)
decode.txt: sha256-of-pixels|error height width channels cut path   (cut: only the first so many bytes; path: shared/... or odd/...)
"""
import glob
import hashlib
import io
import os
import sys

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
import numpy as np
import tensorflow as tf
from PIL import Image

shared = sys.argv[1] if len(sys.argv) > 1 else '../shared'
golden = 'tests/golden/image'
os.makedirs(golden + '/odd', exist_ok=True)
rng = np.random.RandomState(1)
lines = []


def scene(h, w):
    """Gradients, stripes and noise: enough for every coefficient to occur."""
    y, x = np.mgrid[0:h, 0:w]
    a = np.stack([x * 255 // max(w - 1, 1), y * 255 // max(h - 1, 1), (x * 7 + y * 3) % 256], -1)
    a = a + rng.randint(-40, 40, (h, w, 3))
    a[h // 3:h // 2, w // 4:w // 2] = (250, 20, 30)
    return np.clip(a, 0, 255).astype(np.uint8)


def save(name, image, fmt, **options):
    with open('%s/odd/%s' % (golden, name), 'wb') as f:
        image.save(f, fmt, **options)


def write_png(name, h, w, depth, colour, rows, interlace=0, extra=b''):
    """PNG by hand, for depths that Pillow does not write. rows: bytes of the unfiltered lines."""
    import struct, zlib

    def chunk(kind, body):
        return struct.pack('>I', len(body)) + kind + body + struct.pack('>I', zlib.crc32(kind + body))
    raw = b''.join(b'\0' + r for r in rows)
    data = (b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', w, h, depth, colour, 0, 0, interlace)) + extra +
            chunk(b'IDAT', zlib.compress(raw)) + chunk(b'IEND', b''))
    with open('%s/odd/%s' % (golden, name), 'wb') as f:
        f.write(data)


def make_odd():
    for sub in (0, 1, 2):
        for h, w in ((33, 47), (16, 16), (1, 9), (50, 7)):
            save('s%d_%dx%d.jpg' % (sub, h, w), Image.fromarray(scene(h, w)), 'JPEG', subsampling=sub, quality=80)
    big = Image.fromarray(scene(61, 83))
    save('progressive.jpg', big, 'JPEG', progressive=True, quality=85)
    save('progressive_s2.jpg', big, 'JPEG', progressive=True, quality=60, subsampling=2)
    save('restart.jpg', big, 'JPEG', quality=70, restart_marker_blocks=3)
    save('optimised.jpg', big, 'JPEG', quality=30, optimize=True)
    save('grey.jpg', big.convert('L'), 'JPEG', quality=75)
    save('cmyk.jpg', big.convert('CMYK'), 'JPEG', quality=90)  # Pillow writes Adobe's marker: inverted inks
    with open(golden + '/odd/cmyk.jpg', 'rb') as f:
        data = f.read()
    at = data.index(b'\xff\xee')
    size = data[at + 2] * 256 + data[at + 3]
    with open(golden + '/odd/cmyk_plain.jpg', 'wb') as f:  # the same inks without the marker
        f.write(data[:at] + data[at + 2 + size:])
    with open(golden + '/odd/ycck.jpg', 'wb') as f:  # marker says YCCK
        f.write(data[:at + 2 + size - 1] + b'\x02' + data[at + 2 + size:])
    a = scene(21, 35)
    for mode in ('RGB', 'RGBA', 'L', 'LA', 'P', '1'):
        image = Image.fromarray(a).convert(mode)
        if mode in ('RGBA', 'LA'):
            image.putalpha(Image.fromarray(rng.randint(0, 255, (21, 35), dtype=np.uint8)))
        save('png_%s.png' % mode, image, 'PNG')
    p = Image.fromarray(a).convert('P')
    save('png_P_transparent.png', p, 'PNG', transparency=5)
    save('png_named.jpg', Image.fromarray(a), 'PNG')
    for colour, n in ((0, 1), (2, 3), (4, 2), (6, 4)):
        v = rng.randint(0, 65536, (13, 17 * n)).astype('>u2')
        write_png('png16_%d.png' % colour, 13, 17, 16, colour, [r.tobytes() for r in v])
    for depth in (1, 2, 4):
        rows = [rng.bytes((19 * depth + 7) // 8) for _ in range(11)]
        write_png('png_grey%d.png' % depth, 11, 19, depth, 0, rows)
    for mode in ('RGB', 'L', 'P', 'RGBA'):
        save('bmp_%s.bmp' % mode, Image.fromarray(a).convert(mode), 'BMP')
    for i, mode in enumerate(('P', 'L')):
        save('gif_%s.gif' % mode, Image.fromarray(a).convert(mode), 'GIF', interlace=i)
    frames = [Image.fromarray(scene(30, 20)).convert('P') for _ in range(3)]
    save('gif_frames.gif', frames[0], 'GIF', save_all=True, append_images=frames[1:])
    save('gif_transparent.gif', frames[1], 'GIF', transparency=7)
    save('gif_large.gif', Image.fromarray(scene(150, 170)).convert('P'), 'GIF')


def decode(data, channels):
    """As the original's decoder: JPEG by decode_jpeg, the rest by decode_image; of a GIF the first frame."""
    if tf.io.is_jpeg(data):
        return tf.io.decode_jpeg(data, channels=channels).numpy()
    image = tf.io.decode_image(data, channels=channels).numpy()
    return image[0] if image.ndim == 4 else image


def add(name, path, channels=3, cut=None):
    with open(path, 'rb') as f:
        data = f.read()
    try:
        image = decode(data if cut is None else data[:cut], channels)
        lines.append('%s %d %d %d %d %s' % (hashlib.sha256(image.tobytes()).hexdigest(), *image.shape,
                                           len(data) if cut is None else cut, name))
    except tf.errors.InvalidArgumentError:
        lines.append('error 0 0 %d %d %s' % (channels, len(data) if cut is None else cut, name))


make_odd()
for path in sorted(glob.glob(golden + '/odd/*')):
    name = 'odd/' + os.path.basename(path)
    add(name, path)
    if path.endswith(('.jpg', '.png')):
        add(name, path, channels=1)
for name in ('restart.jpg', 'progressive.jpg', 's2_33x47.jpg', 'png_RGB.png', 'png_P.png', 'gif_P.gif', 'bmp_RGB.bmp'):
    path = golden + '/odd/' + name
    size = os.path.getsize(path)
    for cut in sorted(set([size - k for k in (1, 2, 3, 4, 8, 12, 13, 20, 40)] + [size * k // 16 for k in range(16)])):
        add('odd/' + name, path, cut=cut)
for pattern in ('data/raccoon/images/*', 'data/tf_models_testdata/**/image*.jpg'):
    for path in sorted(glob.glob(os.path.join(shared, pattern), recursive=True)):
        add('shared/' + os.path.relpath(path, shared), path)
with open(golden + '/decode.txt', 'w') as f:
    f.write('# tests/witness/images.py, seed 1, TensorFlow %s, Pillow %s\n' % (tf.__version__, Image.__version__))
    f.write('\n'.join(lines) + '\n')
