"""make_textproto_golden.py: what Python's text_format prints, for tests/io/test_textproto_golden.c.

    OD_WITNESS=1 PYTHONPATH=../shared/witness/original PYTHON tests/witness/make_textproto_golden.py      (from the root)

Writes to tests/golden/textproto:
  shipped.txt   for each sample config and label map: length and FNV-1a-64 of MessageToString(Parse(file))
  random.bin    seeded random messages: type name, wire bytes and text of each, lengths in front (little-endian uint32)
Made with protobuf 3.20.3 (Python), TensorFlow 2.15.1, seed 20180701.
"""
import glob
import random
import struct

import numpy as np
from google.protobuf import text_format
from object_detection.protos import pipeline_pb2, string_int_label_map_pb2
from tensorflow.core.example import example_pb2
from tensorflow.core.framework import graph_pb2, summary_pb2
from tensorflow.core.protobuf import meta_graph_pb2, tensor_bundle_pb2
from tensorflow.core.util import event_pb2
from tensorflow.python.training import checkpoint_state_pb2

# fields that our schemas leave out on purpose
SKIP = {"tensorflow.GraphDef.debug_info", "tensorflow.MetaGraphDef.object_graph_def", "tensorflow.TensorInfo.composite_tensor",
        "tensorflow.MetaGraphDef.MetaInfoDef.any_info", "tensorflow.CollectionDef.any_list"}
OUT = "tests/golden/textproto/"


def fnv(data):
    h = 0xcbf29ce484222325
    for b in data:
        h = (h ^ b) * 0x100000001b3 & 0xffffffffffffffff
    return h


def number(r, bits, signed):
    v = r.choice([0, 1, 2, r.getrandbits(bits), r.getrandbits(7), (1 << bits) - 1])
    return v - (1 << bits) if signed and v >= 1 << (bits - 1) else v


def real32(r):
    if r.random() < 0.5:
        return float(np.float32(r.choice([0.1, 1e-8, 4e-5, 0.9997, 24, 1e15, 1e16, 123456789, 0.0001, 0.00009999, -2.5, 1 / 3, 3.4028234e38, 1e-45])))
    v = np.array([r.getrandbits(32)], np.uint32).view(np.float32)[0]
    return float(v) if np.isfinite(v) else float("inf")


def real64(r):
    v = np.array([r.getrandbits(64)], np.uint64).view(np.float64)[0]
    return r.choice([0.1, 1e22, 5e-324, 1582222222.123, float(v) if np.isfinite(v) else float("-inf")])


def text(r, name):
    # our parser refuses control characters in paths: there they are backslashes gone wrong
    odd = "" if name.endswith(("path", "checkpoint", "dir")) else "\n\t\x01"
    return "".join(r.choice("ab c/_.\\\"'?#{}\x7fé漢😀" + odd) for _ in range(r.randrange(12)))


def scalar(r, f):
    if f.type == f.TYPE_ENUM:
        return r.choice(f.enum_type.values).number
    if f.type == f.TYPE_STRING:
        return text(r, f.name)
    if f.type == f.TYPE_BYTES:
        return bytes(r.getrandbits(8) for _ in range(r.randrange(20)))
    kind = f.cpp_type
    if kind == f.CPPTYPE_BOOL:
        return bool(r.getrandbits(1))
    if kind == f.CPPTYPE_FLOAT:
        return real32(r)
    if kind == f.CPPTYPE_DOUBLE:
        return real64(r)
    return {f.CPPTYPE_INT32: lambda: number(r, 32, True), f.CPPTYPE_UINT32: lambda: number(r, 32, False),
            f.CPPTYPE_INT64: lambda: number(r, 64, True), f.CPPTYPE_UINT64: lambda: number(r, 64, False)}[kind]()


def fill(r, m, depth, density):
    for f in m.DESCRIPTOR.fields:
        if f.full_name in SKIP or r.random() > density:
            continue
        if f.type == f.TYPE_MESSAGE and depth == 0:
            continue
        is_map = f.type == f.TYPE_MESSAGE and f.message_type.GetOptions().map_entry
        if is_map:
            key, value = f.message_type.fields
            for _ in range(r.randrange(4)):
                k = scalar(r, key)
                if value.type == value.TYPE_MESSAGE:
                    fill(r, getattr(m, f.name)[k], depth - 1, density)
                else:
                    getattr(m, f.name)[k] = scalar(r, value)
        elif f.label == f.LABEL_REPEATED:
            for _ in range(r.randrange(4)):
                if f.type == f.TYPE_MESSAGE:
                    fill(r, getattr(m, f.name).add(), depth - 1, density)
                else:
                    getattr(m, f.name).append(scalar(r, f))
        elif f.type == f.TYPE_MESSAGE:
            getattr(m, f.name).SetInParent()
            fill(r, getattr(m, f.name), depth - 1, density)
        else:
            setattr(m, f.name, scalar(r, f))


def main():
    with open(OUT + "shipped.txt", "w") as out:
        for pattern, kind in (("samples/configs/*.config", pipeline_pb2.TrainEvalPipelineConfig),
                              ("data/*.pbtxt", string_int_label_map_pb2.StringIntLabelMap)):
            for path in sorted(glob.glob(pattern)):
                printed = text_format.MessageToString(text_format.Parse(open(path, encoding="utf-8").read(), kind())).encode()
                out.write("%s %d %016x\n" % (path, len(printed), fnv(printed)))
    r = random.Random(20180701)
    kinds = [(pipeline_pb2.TrainEvalPipelineConfig, 8, 0.45, 20), (string_int_label_map_pb2.StringIntLabelMap, 3, 0.7, 3),
             (graph_pb2.GraphDef, 5, 0.6, 10), (meta_graph_pb2.MetaGraphDef, 5, 0.5, 6), (example_pb2.SequenceExample, 6, 0.9, 4),
             (summary_pb2.Summary, 4, 0.6, 3), (event_pb2.Event, 5, 0.7, 12), (tensor_bundle_pb2.BundleEntryProto, 4, 0.7, 3),
             (checkpoint_state_pb2.CheckpointState, 2, 0.9, 3)]
    with open(OUT + "random.bin", "wb") as out:
        for kind, depth, density, times in kinds:
            for _ in range(times):
                m = kind()
                fill(r, m, depth, density)
                for part in (m.DESCRIPTOR.full_name.encode(), m.SerializeToString(), text_format.MessageToString(m).encode()):
                    out.write(struct.pack("<I", len(part)))
                    out.write(part)


main()
