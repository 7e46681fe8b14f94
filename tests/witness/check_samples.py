"""check_samples.py: samples/configs and data/*.pbtxt against the values of the original's files.

    OD_WITNESS=1 PYTHONPATH=../shared/witness/original PYTHON tests/witness/check_samples.py      (from the root)

Reads ../shared/reference/sample_configs.md, builds each config from it, parses ours with Python's text_format and compares
every value in both directions; the one difference allowed is the second record name of the pets configs. Label maps are
compared with those in ../shared/data. Exit 1 on any difference; skips aloud where shared data or the witness is absent.
"""
import glob
import os
import re
import sys

try:
    from google.protobuf import text_format
    from object_detection.protos import pipeline_pb2, string_int_label_map_pb2
except ImportError as e:
    print("SKIPPED: needs the witness (%s)" % e)
    sys.exit(0)

SHARED = os.environ.get("OBJDET_SHARED", "../shared")
VALUES = SHARED + "/reference/sample_configs.md"
MAPS = SHARED + "/data/tf_models_testdata/research/object_detection/data/"
PETS = {"train_input_reader": "pet_train", "eval_input_reader": "pet_val"}


def entries(path):
    """name: (base or None, lines)"""
    out, name, inside = {}, None, False
    for line in open(path, encoding="utf-8"):
        head = re.match(r"## (\S+) (?:\(in full\)|= (\S+) with)", line)
        if head:
            name = head.group(1)
            out[name] = (head.group(2), [])
        elif line.startswith("```"):
            inside = not inside
        elif inside and name and line.strip():
            out[name][1].append(line.rstrip())
    return out


def values(every, name):
    """path (a tuple of steps): value text"""
    base, lines = every[name]
    out = dict(values(every, base)) if base else {}
    path = []
    for line in lines:
        if line.startswith("without "):
            gone = tuple(line[8:].split("."))
            out = {k: v for k, v in out.items() if k[:len(gone)] != gone}
            continue
        path = path[:(len(line) - len(line.lstrip())) // 2] + [line.strip().split(" = ")[0]]
        if " = " in line:
            for i in range(1, len(path)):
                if out.get(tuple(path[:i])) == "{}":
                    del out[tuple(path[:i])]
            out[tuple(path)] = line.strip().split(" = ", 1)[1]
    return out


def scalar(f, text):
    if f.type == f.TYPE_STRING:
        return "" if text == '""' else text
    if f.type == f.TYPE_BOOL:
        return {"true": True, "false": False}[text]
    if f.type == f.TYPE_ENUM:
        return f.enum_type.values_by_name[text].number
    return float(text) if f.cpp_type in (f.CPPTYPE_FLOAT, f.CPPTYPE_DOUBLE) else int(text)


def build(flat):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    for path, text in sorted(flat.items()):
        m = config
        for k, step in enumerate(path):
            name, index = re.match(r"(\w+)(?:\[(\d+)\])?$", step).groups()
            f = m.DESCRIPTOR.fields_by_name[name]
            repeated = f.label == f.LABEL_REPEATED
            if f.type != f.TYPE_MESSAGE:
                if not repeated:
                    setattr(m, name, scalar(f, text))
                else:
                    getattr(m, name).extend(scalar(f, t) for t in ([text] if f.type == f.TYPE_STRING else text.split()))
            elif repeated:
                items = getattr(m, name)
                while len(items) <= int(index or 0):
                    items.add()
                m = items[int(index or 0)]
            else:
                m = getattr(m, name)
                m.SetInParent()
    return config


def leaves(m, path=""):
    out = {}
    for f, v in m.ListFields():
        for i, x in enumerate(v if f.label == f.LABEL_REPEATED else [v]):
            p = "%s.%s[%d]" % (path, f.name, i)
            out[p] = "{}" if f.type == f.TYPE_MESSAGE else x
            if f.type == f.TYPE_MESSAGE:
                out.update(leaves(x, p))
    return out


def main():
    if not os.path.exists(VALUES):
        print("SKIPPED: needs shared data " + VALUES)
        return 0
    every, bad, count = entries(VALUES), 0, 0
    files = sorted(glob.glob("samples/configs/*.config"))
    for path in files:
        name = os.path.basename(path)[:-len(".config")]
        want = leaves(build(values(every, name)))
        have = leaves(text_format.Parse(open(path, encoding="utf-8").read(), pipeline_pb2.TrainEvalPipelineConfig()))
        if name.endswith("_pets"):
            for reader, record in PETS.items():
                want[".%s[0].tf_record_input_reader[0].input_path[1]" % reader] = "PATH_TO_BE_CONFIGURED/%s.record" % record
        for k in sorted(set(want) | set(have)):
            count += 1
            if want.get(k) != have.get(k):
                bad += 1
                print("%s%s: %r, the original has %r" % (name, k, have.get(k), want.get(k)))
    for path in sorted(glob.glob("data/*.pbtxt")):
        two = [text_format.Parse(open(p, encoding="utf-8").read(), string_int_label_map_pb2.StringIntLabelMap())
               for p in (path, MAPS + os.path.basename(path))]
        count += len(two[0].item)
        if two[0] != two[1]:
            bad += 1
            print("%s differs from the original's" % path)
    print("%d configs and %d label maps, %d values compared: %d differences" % (len(files), len(glob.glob("data/*.pbtxt")), count, bad))
    return 1 if bad or len(files) < 20 else 0


sys.exit(main())
