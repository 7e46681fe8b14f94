"""Makes tests/golden/data/kitti/ (a small tree) and kitti.json: what the original's create_kitti_tf_record gives.

Run in the repository: OD_WITNESS=1 PYTHONPATH=../shared/witness/original python tests/witness/kitti.py   (seed 1)
"""
import hashlib
import json
import os

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
import numpy as np
import tensorflow as tf
from PIL import Image
from object_detection.dataset_tools import create_kitti_tf_record

rng = np.random.RandomState(1)
tree = 'tests/golden/data/kitti'
images, labels = tree + '/data_object_image_2/training/image_2', tree + '/training/label_2'
os.makedirs(images, exist_ok=True)
os.makedirs(labels, exist_ok=True)
with open(tree + '/map.pbtxt', 'w') as f:
    f.write("item { id: 1 name: 'car' }\nitem { id: 2 name: 'pedestrian' }\nitem { id: 3 name: 'van' }\n")
for n in (0, 1, 4, 7):
    Image.fromarray(rng.randint(0, 255, (18 + n, 40, 3), dtype=np.uint8)).save('%s/%06d.png' % (images, n))
    with open('%s/%06d.txt' % (labels, n), 'w') as f:
        for kind in ('Car', 'Pedestrian', 'Van', 'Car', 'Cyclist')[:n + 2]:
            x, y = rng.rand(2) * (20, 8)
            f.write('%s %.2f %d %.2f %.2f %.2f %.2f %.2f %.2f %.2f %.2f %.2f %.2f %.2f %.2f\n' % (
                kind, rng.rand(), rng.randint(3), rng.rand(), x, y, x + 3 + 9 * rng.rand(), y + 2 + 6 * rng.rand(), *rng.rand(7) * 9))
        if n == 4:
            f.write('DontCare -1 -1 -10 15.00 2.00 30.00 12.00 -1 -1 -1 -1000 -1000 -1000 -10\n')
out = []
for mode, classes in (('default', 'car,pedestrian,dontcare'), ('van', 'van')):
    for name in sorted(os.listdir(images)):
        annotations = create_kitti_tf_record.read_annotation_file('%s/%s.txt' % (labels, name[:-4]))
        ex = create_kitti_tf_record.prepare_example(
            os.path.join(images, name), create_kitti_tf_record.filter_annotations(annotations, classes.split(',')),
            {'car': 1, 'pedestrian': 2, 'van': 3})
        features = {}
        for key, feature in sorted(ex.features.feature.items()):
            kind = feature.WhichOneof('kind')
            values = list(getattr(feature, kind).value)
            if key == 'image/encoded':
                values = [hashlib.sha256(values[0]).hexdigest().encode()]
            features[key] = {kind: [v.decode() if isinstance(v, bytes) else v for v in values]}
        out.append({'mode': mode, 'features': features})
with open('tests/golden/data/kitti.json', 'w') as f:
    json.dump({'made_by': 'tests/witness/kitti.py, seed 1, tf_object_detection_api 0.1, TensorFlow 2.15', 'examples': out}, f)
    f.write('\n')
