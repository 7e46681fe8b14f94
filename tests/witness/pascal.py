"""Makes tests/golden/data/voc/ (annotations and a list) and voc.json: what the original's create_pascal_tf_record gives of them.

Run in the repository: OD_WITNESS=1 PYTHONPATH=../shared/witness/original python tests/witness/pascal.py [SHARED]
The pictures are raccoons of the shared data; values of the record are written in full, image/encoded as its SHA-256.
"""
import glob
import hashlib
import json
import os
import shutil
import sys
import tempfile

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
from lxml import etree
from object_detection.dataset_tools import create_pascal_tf_record
from object_detection.utils import dataset_util, label_map_util

shared = sys.argv[1] if len(sys.argv) > 1 else '../shared'
golden = 'tests/golden/data'
os.makedirs(golden + '/voc', exist_ok=True)
names = ['raccoon-12', 'raccoon-2', 'raccoon-30', 'raccoon-4', 'raccoon-63']
with open(golden + '/voc/label_map.pbtxt', 'w') as f:
    f.write("item { id: 1 name: 'raccoon' }\nitem { id: 2 name: 'cat' }\n")
with open(golden + '/voc/list.txt', 'w') as f:
    f.write(''.join('%s  %d\n' % (n, i % 2 * 2 - 1) for i, n in enumerate(names)))
for i, name in enumerate(names):
    root = etree.parse('%s/data/raccoon/annotations/%s.xml' % (shared, name)).getroot()
    root.find('folder').text = 'VOC2007'
    root.remove(root.find('path'))
    if i == 1:  # no object
        for o in root.findall('object'):
            root.remove(o)
    if i == 2:  # a second, difficult one, text with an entity and spaces round a number
        o = etree.fromstring('<object><name>cat</name><pose>Frontal &amp; Left</pose><truncated>1</truncated><difficult>1</difficult>'
                             '<bndbox><xmin> 1 </xmin><ymin>2.5</ymin><xmax>40</xmax><ymax>51</ymax></bndbox>'
                             '<part><name>head</name><bndbox><xmin>9</xmin></bndbox></part></object>')
        root.append(o)
    etree.ElementTree(root).write('%s/voc/%s.xml' % (golden, name))
out = []
with tempfile.TemporaryDirectory() as tree:
    os.makedirs(tree + '/VOC2007/JPEGImages')
    for name in names:
        shutil.copy('%s/data/raccoon/images/%s.jpg' % (shared, name), tree + '/VOC2007/JPEGImages')
    labels = label_map_util.get_label_map_dict(golden + '/voc/label_map.pbtxt')
    for ignore in (False, True):
        for name in dataset_util.read_examples_list(golden + '/voc/list.txt'):
            with open('%s/voc/%s.xml' % (golden, name)) as f:
                data = dataset_util.recursive_parse_xml_to_dict(etree.fromstring(f.read()))['annotation']
            ex = create_pascal_tf_record.dict_to_tf_example(data, tree, labels, ignore)
            features = {}
            for key, feature in sorted(ex.features.feature.items()):
                kind = feature.WhichOneof('kind')
                values = list(getattr(feature, kind).value)
                if key == 'image/encoded':
                    values = [hashlib.sha256(values[0]).hexdigest().encode()]
                features[key] = {kind: [v.decode() if isinstance(v, bytes) else v for v in values]}
            out.append({'ignore_difficult': ignore, 'features': features})
with open(golden + '/voc.json', 'w') as f:
    json.dump({'made_by': 'tests/witness/pascal.py, tf_object_detection_api 0.1, TensorFlow 2.15', 'examples': out}, f, indent=1)
    f.write('\n')
