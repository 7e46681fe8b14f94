"""Makes tests/golden/data/coco/ (four small pictures, two JSON files) and coco.json: what the original's create_coco_tf_record gives.

Run in the repository: OD_WITNESS=1 PYTHONPATH=../shared/witness/original python tests/witness/coco.py
Seed 1, tf_object_detection_api 0.1, pycocotools, Pillow. Masks are given as the SHA-256 of their pixels.
"""
import copy
import hashlib
import io
import json
import os

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
import numpy as np
from PIL import Image
from pycocotools import mask as coco_mask
from object_detection.dataset_tools import create_coco_tf_record
from object_detection.utils import label_map_util

rng = np.random.RandomState(1)
folder = 'tests/golden/data/coco'
os.makedirs(folder, exist_ok=True)
images, annotations, keypoints = [], [], []


def plain_runs(m):
    edges = np.flatnonzero(np.diff(np.concatenate([[0], m.ravel('F')]))).tolist() + [m.size]
    return np.diff([0] + edges).tolist()


def readable(a):
    """The original reads no packed run lengths; pycocotools unpacks them for it."""
    a = copy.deepcopy(a)
    s = a['segmentation']
    if isinstance(s, dict) and isinstance(s['counts'], str):
        s['counts'] = plain_runs(coco_mask.decode({'size': s['size'], 'counts': s['counts'].encode()}))
    return a


for i, (h, w) in enumerate([(40, 60), (33, 21), (50, 50), (24, 31)]):
    name = '%012d.jpg' % (i * 7 + 3)
    Image.fromarray(rng.randint(0, 255, (h, w, 3), dtype=np.uint8)).save('%s/%s' % (folder, name), quality=40)
    images.append({'id': i * 7 + 3, 'file_name': name, 'height': h, 'width': w})
    for k in range(4 if i < 3 else 0):
        n = rng.randint(3, 8)
        parts = []
        for _ in range(1 + k % 2):
            xy = rng.rand(n, 2) * (w * 1.1, h * 1.1) - (w * 0.05, h * 0.05)
            if k == 2:
                xy = np.round(xy)
            parts.append([float('%.2f' % v) for v in xy.ravel()])
        x, y = rng.rand(2) * (w / 2, h / 2)
        bw, bh = rng.rand(2) * (w / 2, h / 2) + 1
        crowd = int(k == 3)
        if crowd:  # uncompressed in one picture, compressed in the others
            m = np.asfortranarray(rng.randint(0, 2, (h, w), dtype=np.uint8))
            parts = {'size': [h, w], 'counts': plain_runs(m) if i == 0 else coco_mask.encode(m)['counts'].decode()}
        a = {'id': len(annotations) + 100, 'image_id': i * 7 + 3, 'category_id': [1, 18, 90, 1][k], 'iscrowd': crowd,
             'bbox': [float('%.2f' % v) for v in (x, y, bw, bh)], 'area': float('%.3f' % (bw * bh / 2)), 'segmentation': parts}
        if k == 1 and i == 1:
            a['bbox'][2] = 0.0  # left out
        if k == 1 and i == 2:
            a['bbox'][0] = 45.0
            a['bbox'][2] = 6.0  # reaches out: left out
        annotations.append(a)
        if k == 0:
            kp = np.stack([rng.randint(0, w, 17), rng.randint(0, h, 17), rng.randint(0, 3, 17)], 1)
            keypoints.append({'id': a['id'], 'image_id': a['image_id'], 'num_keypoints': int((kp[:, 2] > 0).sum()), 'keypoints': kp.ravel().tolist()})
categories = [{'id': 1, 'name': 'person'}, {'id': 18, 'name': 'dog'}, {'id': 90, 'name': 'toothbrush'}]
with open(folder + '/instances.json', 'w') as f:
    json.dump({'images': images, 'annotations': annotations, 'categories': categories}, f)
with open(folder + '/keypoints.json', 'w') as f:
    json.dump({'images': images, 'annotations': keypoints, 'categories': categories[:1]}, f)
out = []
index = label_map_util.create_category_index(categories)
for mode in ('boxes', 'masks', 'keypoints'):
    for image in images:
        mine = [readable(a) for a in annotations if a['image_id'] == image['id']]
        points = {a['id']: a for a in keypoints if a['image_id'] == image['id']} if mode == 'keypoints' else None
        _, ex, _, _, _ = create_coco_tf_record.create_tf_example(image, mine, folder, index, mode == 'masks', points)
        features = {}
        for key, feature in sorted(ex.features.feature.items()):
            kind = feature.WhichOneof('kind')
            values = list(getattr(feature, kind).value)
            if key == 'image/encoded':
                values = [hashlib.sha256(values[0]).hexdigest().encode()]
            if key == 'image/object/mask':
                values = [hashlib.sha256((np.asarray(Image.open(io.BytesIO(v))) > 0).astype(np.uint8).tobytes()).hexdigest().encode() for v in values]
            features[key] = {kind: [v.decode() if isinstance(v, bytes) else v for v in values]}
        out.append({'mode': mode, 'features': features})
with open('tests/golden/data/coco.json', 'w') as f:
    json.dump({'made_by': 'tests/witness/coco.py, seed 1, tf_object_detection_api 0.1', 'examples': out}, f)
    f.write('\n')
