"""Makes tests/golden/data/pets.json: what the original's create_pet_tf_record gives of a tree as Oxford ships it.

The tree is written out of the ten pets of the shared pets_examples.record: pictures, XML, trimaps (1 inside the face's box, 3 on
its border, 2 elsewhere). tests/data/test_pets.c writes the same tree. Run in the repository:
OD_WITNESS=1 PYTHONPATH=../shared/witness/original python tests/witness/pets.py [SHARED]
"""
import hashlib
import io
import json
import os
import random
import sys
import tempfile

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
import numpy as np
import tensorflow as tf
from PIL import Image
from lxml import etree
from object_detection.dataset_tools import create_pet_tf_record
from object_detection.utils import dataset_util, label_map_util

shared = sys.argv[1] if len(sys.argv) > 1 else '../shared'
base = shared + '/data/tf_models_testdata/research/object_detection'
names, out = [], []
with tempfile.TemporaryDirectory() as tree:
    for d in ('images', 'annotations/xmls', 'annotations/trimaps'):
        os.makedirs(tree + '/' + d)
    for record in tf.python_io.tf_record_iterator(base + '/test_data/pets_examples.record'):
        f = tf.train.Example.FromString(record).features.feature
        name = f['image/filename'].bytes_list.value[0].decode()[:-4]
        names.append(name)
        with open('%s/images/%s.jpg' % (tree, name), 'wb') as g:
            g.write(f['image/encoded'].bytes_list.value[0])
        h, w = f['image/height'].int64_list.value[0], f['image/width'].int64_list.value[0]
        box = [int(round(f['image/object/bbox/' + k].float_list.value[0] * s)) for k, s in (('xmin', w), ('ymin', h), ('xmax', w), ('ymax', h))]
        with open('%s/annotations/xmls/%s.xml' % (tree, name), 'w') as g:
            g.write('<annotation><folder>OXIIIT</folder><filename>%s.jpg</filename><size><width>%d</width><height>%d</height><depth>3</depth></size>'
                    '<object><name>cat</name><pose>Frontal</pose><truncated>1</truncated><occluded>0</occluded><bndbox><xmin>%d</xmin><ymin>%d</ymin>'
                    '<xmax>%d</xmax><ymax>%d</ymax></bndbox><difficult>0</difficult></object></annotation>\n' % (name, w, h, *box))
        trimap = np.full((h, w), 2, np.uint8)
        trimap[box[1]:box[3], box[0]:box[2]] = 3
        trimap[box[1] + 2:box[3] - 2, box[0] + 2:box[2] - 2] = 1
        Image.fromarray(trimap).save('%s/annotations/trimaps/%s.png' % (tree, name))
    random.seed(42)
    random.shuffle(names)
    labels = label_map_util.get_label_map_dict(base + '/data/pet_label_map.pbtxt')
    for mode, faces, masks in (('faces', True, 'png'), ('png', False, 'png'), ('numerical', False, 'numerical')):
        for name in names[:2] if mode == 'numerical' else names:
            with open('%s/annotations/xmls/%s.xml' % (tree, name)) as g:
                data = dataset_util.recursive_parse_xml_to_dict(etree.fromstring(g.read()))['annotation']
            ex = create_pet_tf_record.dict_to_tf_example(data, '%s/annotations/trimaps/%s.png' % (tree, name), labels, tree + '/images',
                                                         faces_only=faces, mask_type=masks)
            features = {}
            for key, feature in sorted(ex.features.feature.items()):
                kind = feature.WhichOneof('kind')
                values = list(getattr(feature, kind).value)
                if key == 'image/encoded':
                    values = [hashlib.sha256(values[0]).hexdigest().encode()]
                if key == 'image/object/mask' and kind == 'bytes_list':  # of the pixels
                    values = [hashlib.sha256(np.asarray(Image.open(io.BytesIO(v))).tobytes()).hexdigest().encode() for v in values]
                if key == 'image/object/mask' and kind == 'float_list':
                    kind, values = 'float_sha256', [hashlib.sha256(np.asarray(values, np.float32).tobytes()).hexdigest().encode()]
                features[key] = {kind: [v.decode() if isinstance(v, bytes) else v for v in values]}
            out.append({'mode': mode, 'features': features})
with open('tests/golden/data/pets.json', 'w') as g:
    json.dump({'made_by': 'tests/witness/pets.py, tf_object_detection_api 0.1, TensorFlow 2.15', 'order': names, 'examples': out}, g)
    g.write('\n')
