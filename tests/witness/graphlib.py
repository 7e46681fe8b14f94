"""The interpreter of objdet for Python: build/libobjdet.so through ctypes, for checks against TensorFlow."""
import ctypes
import os

import numpy as np

NUMPY = {0: np.float32, 2: np.uint8, 3: np.int32, 4: np.int64, 6: np.bool_, 7: np.float64, 8: np.int8}
STRING = 5


class Shape(ctypes.Structure):
    _fields_ = [("rank", ctypes.c_int), ("dim", ctypes.c_int64 * 8)]


class Tensor(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int), ("shape", Shape), ("data", ctypes.c_void_p)]


class Bytes(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_size_t)]


class Feed(ctypes.Structure):
    _fields_ = [("tensor", ctypes.c_char_p), ("value", Tensor)]


class View(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t)]


class GraphError(Exception):
    pass


def library(path=None):
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    lib = ctypes.CDLL(path or os.path.join(root, "build", "libobjdet.so"))
    lib.od_message.restype = ctypes.c_char_p
    lib.od_tfgraph_free.argtypes = [ctypes.c_void_p]
    lib.od_tfgraph_run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
    lib.od_tensor_free.argtypes = [ctypes.c_void_p]
    return lib


def as_tensor(value, keep):
    """A numpy array, or a list of bytes, as od_tensor; what must stay alive goes into keep."""
    t = Tensor()
    if isinstance(value, (bytes, list)):
        items = [value] if isinstance(value, bytes) else value
        block = (Bytes * max(len(items), 1))(*[Bytes(b, len(b)) for b in items])
        keep += [block, items]
        t.dtype, t.data = STRING, ctypes.cast(block, ctypes.c_void_p)
        shape = () if isinstance(value, bytes) else (len(items),)
    else:
        value = np.ascontiguousarray(value)
        keep.append(value)
        t.dtype = [k for k, v in NUMPY.items() if value.dtype == v][0]
        t.data = value.ctypes.data
        shape = value.shape
    t.shape.rank = len(shape)
    for i, d in enumerate(shape):
        t.shape.dim[i] = d
    return t


class Graph:
    """A graph from a path, or from bytes."""

    def __init__(self, lib, source):
        self.lib, self.g = lib, ctypes.c_void_p()
        if isinstance(source, bytes):
            self.bytes = ctypes.create_string_buffer(source, len(source))
            st = lib.od_tfgraph_parse(ctypes.byref(self.g), View(ctypes.cast(self.bytes, ctypes.c_void_p), len(source)), b"bytes")
        else:
            st = lib.od_tfgraph_open(ctypes.byref(self.g), os.fsencode(source))
        if st:
            raise GraphError(lib.od_message().decode(errors="replace"))

    def check(self):
        if self.lib.od_tfgraph_check(self.g):
            raise GraphError(self.lib.od_message().decode(errors="replace"))

    def run(self, fetches, feeds):
        keep = []
        f = (Feed * len(feeds))(*[Feed(k.encode(), as_tensor(v, keep)) for k, v in feeds.items()])
        names = (ctypes.c_char_p * len(fetches))(*[n.encode() for n in fetches])
        out = (Tensor * len(fetches))()
        if self.lib.od_tfgraph_run(self.g, f, len(feeds), names, len(fetches), out):
            raise GraphError(self.lib.od_message().decode(errors="replace"))
        result = []
        for t in out:
            shape = tuple(t.shape.dim[i] for i in range(t.shape.rank))
            if t.dtype == STRING:
                result.append(None)
            else:
                n = int(np.prod(shape, dtype=np.int64)) * np.dtype(NUMPY[t.dtype]).itemsize
                result.append(np.frombuffer(ctypes.string_at(t.data, n), NUMPY[t.dtype]).reshape(shape).copy())
            self.lib.od_tensor_free(ctypes.byref(t))
        return result

    def close(self):
        self.lib.od_tfgraph_free(self.g)
        self.g = None


class Parity(ctypes.Structure):
    _fields_ = [("raw", ctypes.c_double), ("score", ctypes.c_double), ("box", ctypes.c_double), ("unmatched", ctypes.c_int64),
                ("detections", ctypes.c_int64)]


def differs(lib, names, got, want):
    """What od_export_compare says against got (dicts of float32 arrays); None when they agree."""
    keep = []
    g = (Tensor * len(names))(*[as_tensor(got[n], keep) for n in names])
    w = (Tensor * len(names))(*[as_tensor(want[n], keep) for n in names])
    c = (ctypes.c_char_p * len(names))(*[n.encode() for n in names])
    if lib.od_export_compare(ctypes.byref(Parity()), c, g, w, len(names)):
        return lib.od_message().decode(errors="replace")
    return None
