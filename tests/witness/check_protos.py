"""check_protos.py: our .proto files against the original's compiled ones and TensorFlow's, descriptor by descriptor.

    OD_WITNESS=1 PYTHONPATH=../shared/witness/original PYTHON tests/witness/check_protos.py      (from the root)

Compares every message, field (number, label, type, default, oneof, packing, deprecation), enum, reserved and extension
range. Exit 1 on any difference; skips aloud where the witness or protoc is absent.
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

try:
    from google.protobuf import descriptor_pb2 as D
    from object_detection.protos import pipeline_pb2, string_int_label_map_pb2, target_assigner_pb2
    from tensorflow.core.example import example_pb2
    from tensorflow.core.framework import graph_pb2
    from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2, tensor_bundle_pb2
    from tensorflow.core.util import event_pb2, saved_tensor_slice_pb2
    from tensorflow.python.training import checkpoint_state_pb2
except ImportError as e:
    print("SKIPPED: needs the witness (%s)" % e)
    sys.exit(0)
try:
    from onnx import onnx_ml_pb2
except ImportError:
    onnx_ml_pb2 = None
    print("SKIPPED: onnx.proto needs the onnx package (made with 1.14.1)")
if not shutil.which("protoc"):
    print("SKIPPED: needs protoc")
    sys.exit(0)

# left out on purpose; protobuf-c keeps such fields as unknown ones and writes them back
LEFT_OUT = {".tensorflow.GraphDef.debug_info", ".tensorflow.MetaGraphDef.object_graph_def", ".tensorflow.TensorInfo.composite_tensor",
            ".onnx.ModelProto.training_info"}


def ours():
    files = sorted(os.path.relpath(f, "src") for f in glob.glob("src/io/proto/*.proto"))
    if not onnx_ml_pb2:
        files = [f for f in files if not f.endswith("onnx.proto")]
    with tempfile.TemporaryDirectory() as tmp:
        subprocess.check_call(["protoc", "--proto_path=src", "--include_imports", "-o", tmp + "/all.pb"] + files)
        with open(tmp + "/all.pb", "rb") as f:
            return D.FileDescriptorSet.FromString(f.read()).file


def theirs():
    seen = {}

    def walk(fd):
        if fd.name in seen:
            return
        seen[fd.name] = D.FileDescriptorProto()
        fd.CopyToProto(seen[fd.name])
        for d in fd.dependencies:
            walk(d)
    for module in (pipeline_pb2, string_int_label_map_pb2, target_assigner_pb2, example_pb2, graph_pb2, meta_graph_pb2, saved_model_pb2, event_pb2,
                   tensor_bundle_pb2, saved_tensor_slice_pb2, checkpoint_state_pb2):
        walk(module.DESCRIPTOR)
    if onnx_ml_pb2:
        walk(onnx_ml_pb2.DESCRIPTOR)
    return seen.values()


def table(files):
    out = {}

    def message(m, prefix, syntax):
        full = prefix + m.name
        out["message", full] = (sorted((r.start, r.end) for r in m.extension_range), m.options.map_entry,
                                sorted((r.start, r.end) for r in m.reserved_range))
        for f in m.field:
            number = f.type not in (f.TYPE_STRING, f.TYPE_BYTES, f.TYPE_MESSAGE, f.TYPE_GROUP)
            packed = f.options.packed if f.options.HasField("packed") else syntax == "proto3" and f.label == f.LABEL_REPEATED and number
            default = f.default_value
            if default and f.type in (f.TYPE_FLOAT, f.TYPE_DOUBLE):
                default = float(default)
            oneof = m.oneof_decl[f.oneof_index].name if f.HasField("oneof_index") else None
            out["field", full + "." + f.name] = (f.number, f.label, f.type, f.type_name, f.HasField("default_value"), default, packed,
                                                 oneof, f.options.deprecated, f.proto3_optional, syntax)
        for n in m.nested_type:
            message(n, full + ".", syntax)
        for e in m.enum_type:
            out["enum", full + "." + e.name] = [(v.name, v.number) for v in e.value]

    for f in files:
        prefix = "." + f.package + "."
        for m in f.message_type:
            message(m, prefix, f.syntax or "proto2")
        for e in f.enum_type:
            out["enum", prefix + e.name] = [(v.name, v.number) for v in e.value]
    return out


def main():
    a, b = table(ours()), table(theirs())
    bad = [(k, a[k], b.get(k)) for k in a if a[k] != b.get(k)]
    have = {name for kind, name in a if kind == "message"}
    for kind, name in b:
        if (kind, name) in a or name in LEFT_OUT:
            continue
        # all of object_detection must be there; of TensorFlow the whole of each message that we have
        if name.startswith(".object_detection") or (kind == "field" and name.rsplit(".", 1)[0] in have):
            bad.append(((kind, name), None, b[kind, name]))
    for key, mine, other in bad:
        print("%s %s: ours %s, the original's %s" % (key + (mine, other)))
    count = [sum(kind == k for kind, _ in a) for k in ("message", "field", "enum")]
    print("%d messages, %d fields, %d enums compared: %d differences" % (*count, len(bad)))
    return 1 if bad else 0


sys.exit(main())
