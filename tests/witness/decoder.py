"""Makes tests/golden/data/decoder.record and decoder.json: Examples of many forms, and what the original's TfExampleDecoder gives.

Run in the repository: OD_WITNESS=1 PYTHONPATH=../shared/witness/original python tests/witness/decoder.py   (TensorFlow 2.15, seed 1)
"""
import hashlib
import io
import json
import os

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
import numpy as np
import tensorflow as tf
from PIL import Image
from object_detection.data_decoders import tf_example_decoder
from object_detection.protos import input_reader_pb2

rng = np.random.RandomState(1)
golden = 'tests/golden/data'
with open(golden + '/decoder_map.pbtxt', 'w') as f:
    f.write("item { id: 1 name: 'cat' display_name: 'Cat' }\nitem { id: 2 name: '/m/dog' display_name: 'dog' ancestor_ids: [5, 1] }\n"
            "item { id: 3 name: 'cat' display_name: 'Tabby' }\nitem { id: 5 name: 'bird' display_name: 'cat' descendant_ids: [2, 3] }\n")


def png(a):
    b = io.BytesIO()
    Image.fromarray(a).save(b, 'PNG')
    return b.getvalue()


def feature(v):
    if isinstance(v, bytes):
        v = [v]
    if len(v) and isinstance(v[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=v))
    if len(v) and isinstance(v[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=v))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=v))


def base(n=2, h=6, w=8):
    d = {'image/encoded': png(rng.randint(0, 255, (h, w, 3), dtype=np.uint8)), 'image/source_id': b'one', 'image/height': [h],
         'image/width': [w], 'image/filename': b'a.png', 'image/key/sha256': b'abc'}
    for k in ('ymin', 'xmin', 'ymax', 'xmax'):
        d['image/object/bbox/' + k] = [float(np.float32(v)) for v in rng.rand(n)] if n else []
    d['image/object/class/label'] = [1, 2, 7][:n]
    d['image/object/class/text'] = [b'cat', b'dog', b'nothing'][:n]
    return d


def jpeg(d):
    b = io.BytesIO()
    Image.fromarray(rng.randint(0, 255, (6, 8, 3), dtype=np.uint8)).save(b, 'JPEG', quality=60)
    return dict(d, **{'image/encoded': b.getvalue()})


masks = rng.randint(0, 2, (2, 6, 8)).astype(np.float32)
cases = [
    ('text_by_label_map', base(3), dict(label_map=True)),
    ('labels_without_map', base(3), {}),
    ('labels_when_there_is_no_text', {k: v for k, v in base().items() if 'text' not in k}, dict(label_map=True)),
    ('no_boxes', {k: v for k, v in base(0).items() if 'object' not in k}, dict(label_map=True)),
    ('jpeg', jpeg(base()), {}),
    ('flags_and_weights', dict(base(), **{'image/object/difficult': [0, 1], 'image/object/is_crowd': [1, 0], 'image/object/group_of': [0, 1],
                                          'image/object/area': [12.5, 3.0], 'image/object/weight': [0.5, 2.0]}), {}),
    ('multiclass_scores', dict(base(), **{'image/object/class/multiclass_scores': [0.25, 0.75, 1.0, 0.0, 0.5, 0.5]}), dict(scores=True)),
    ('keypoints', dict(base(), **{'image/object/keypoint/x': [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], 'image/object/keypoint/y': [0.6, 0.5, 0.4, 0.3, 0.2, 0.1],
                                  'image/object/keypoint/visibility': [2, 1, 0, 2, 0, 1]}), dict(keypoints=3)),
    ('keypoints_without_visibility', dict(base(), **{'image/object/keypoint/x': [0.1, float('nan'), 0.3, 0.4, 0.5, 0.6],
                                                     'image/object/keypoint/y': [0.6, float('nan'), 0.4, 0.3, 0.2, 0.1]}), dict(keypoints=3)),
    ('numerical_masks', dict(base(), **{'image/object/mask': [float(v) for v in masks.ravel()]}), dict(masks='NUMERICAL_MASKS')),
    ('png_masks', dict(base(), **{'image/object/mask': [png((m * k).astype(np.uint8)) for m, k in zip(masks, (1, 255))],
                                  'image/object/mask/weight': [1.0, 0.25]}), dict(masks='PNG_MASKS')),
    ('image_classes', dict(base(), **{'image/class/label': [2, 5], 'image/class/text': [b'/m/dog', b'bird'], 'image/class/confidence': [1.0, 0.0]}),
     dict(label_map=True)),
    ('hierarchy', dict(base(), **{'image/class/label': [2, 5, 3], 'image/class/text': [b'/m/dog', b'bird', b'Tabby'],
                                  'image/class/confidence': [1.0, 0.0, 0.5], 'image/object/group_of': [1, 0], 'image/object/weight': [0.5, 2.0],
                                  'image/object/class/text': [b'dog', b'Tabby']}), dict(label_map=True, hierarchy=True)),
]
NAMES = {'boxes': 'groundtruth_boxes', 'classes': 'groundtruth_classes', 'weights': 'groundtruth_weights', 'area': 'groundtruth_area',
         'crowd': 'groundtruth_is_crowd', 'difficult': 'groundtruth_difficult', 'group_of': 'groundtruth_group_of',
         'scores': 'multiclass_scores', 'keypoints': 'groundtruth_keypoints', 'visible': 'groundtruth_keypoint_visibilities',
         'masks': 'groundtruth_instance_masks', 'mask_weights': 'groundtruth_instance_mask_weights',
         'image_classes': 'groundtruth_image_classes', 'image_confidences': 'groundtruth_image_confidences'}
out = []
with tf.python_io.TFRecordWriter(golden + '/decoder.record') as writer:
    for name, d, o in cases:
        ex = tf.train.Example(features=tf.train.Features(feature={k: feature(v) for k, v in d.items()})).SerializeToString(deterministic=True)
        writer.write(ex)
        with tf.Graph().as_default(), tf.Session() as s:
            decoder = tf_example_decoder.TfExampleDecoder(
                load_instance_masks='masks' in o, label_map_proto_file=golden + '/decoder_map.pbtxt' if o.get('label_map') else None,
                instance_mask_type=getattr(input_reader_pb2, o.get('masks', 'NUMERICAL_MASKS')), num_keypoints=o.get('keypoints', 0),
                load_multiclass_scores=o.get('scores', False), expand_hierarchy_labels=o.get('hierarchy', False))
            t = decoder.decode(tf.placeholder_with_default(ex, []))
            s.run(tf.tables_initializer())
            r = s.run({k: v for k, v in t.items() if v is not None})
        values = {k: np.asarray(r[v]).astype(float).ravel().tolist() for k, v in NAMES.items() if v in r}
        values = {k: ['NaN' if x != x else x for x in v] for k, v in values.items()}
        out.append({'name': name, 'options': o, 'image': hashlib.sha256(r['image'].tobytes()).hexdigest(), 'shape': list(r['image'].shape),
                    'source_id': r['source_id'].decode(), 'filename': r['filename'].decode(), 'key': r['key'].decode(), **values})
with open(golden + '/decoder.json', 'w') as f:
    json.dump({'made_by': 'tests/witness/decoder.py, seed 1, TensorFlow 2.15', 'cases': out}, f)
    f.write('\n')
