/* TensorFlow graphs, read and run: a small dataflow interpreter for frozen GraphDefs and SavedModels.
 *
 * Node by node with dynamic shapes, v1 control flow (Enter, Merge, Switch, NextIteration, Exit, LoopCond; nested frames; dead
 * tensors) and TensorArrays, for files that we wrote and that the original wrote. It calls no model builder and takes
 * nothing from the training engine but kernels: only so does reading back prove anything. The file is mapped; constants are used
 * where they lie. What it does not know it refuses by op and node name, never by a guess: the type attributes of every node
 * that runs are checked against the tensors it gets, attributes the op does not have are refused, as TensorFlow does. */
#ifndef OD_TFGRAPH_TFGRAPH_H
#define OD_TFGRAPH_TFGRAPH_H

#include "base/tensor.h"
#include "io/file.h"

typedef struct od_tfgraph od_tfgraph;

/* Opens a graph: a frozen GraphDef, a saved_model.pb, or a directory that holds frozen_inference_graph.pb, saved_model.pb or
 * saved_model/ (in this order). OD_EDATA when the bytes are damaged: the message says where. The caller frees it. */
OD_MUST_CHECK od_status od_tfgraph_open(od_tfgraph **out, const char *path);
/* The same from memory that outlives the graph. name: for messages. */
OD_MUST_CHECK od_status od_tfgraph_parse(od_tfgraph **out, od_view bytes, const char *name);
void od_tfgraph_free(od_tfgraph *g);
/* The file that was opened. Borrowed. */
const char *od_tfgraph_path(const od_tfgraph *g);

/* An input or output of the graph: of a SavedModel's serving_default signature (or its only one), else the Placeholders and
 * the tensors that nobody reads. All texts are borrowed. */
typedef struct {
  const char *key;    /* name in the signature; without one the node's name */
  const char *tensor; /* "image_tensor:0" */
  od_dtype dtype;
  od_shape shape; /* -1 where unknown; rank -1: not even the rank (also for outputs without a signature) */
} od_tfgraph_port;
/* i-th port, NULL behind the last. */
const od_tfgraph_port *od_tfgraph_input(const od_tfgraph *g, size_t i);
const od_tfgraph_port *od_tfgraph_output(const od_tfgraph *g, size_t i);

/* A node as it stands in the file. */
typedef struct {
  const char *name, *op;
  int n_in; /* control edges included */
} od_tfgraph_node;
size_t od_tfgraph_nodes(const od_tfgraph *g);
od_tfgraph_node od_tfgraph_node_at(const od_tfgraph *g, size_t i);
/* k-th input of node i as written ("node", "node:1", "^node"). Borrowed; k < n_in. */
const char *od_tfgraph_node_input(const od_tfgraph *g, size_t i, int k);
bool od_tfgraph_has(const od_tfgraph *g, const char *tensor);
/* Value of a Const node, copied; the caller frees it with od_tensor_free. OD_EINVAL when node i is no Const. */
OD_MUST_CHECK od_status od_tfgraph_constant(od_tensor *out, const od_tfgraph *g, size_t i);
/* Type and shape of a Const node without its data. */
OD_MUST_CHECK od_status od_tfgraph_constant_type(od_dtype *dtype, od_shape *shape, const od_tfgraph *g, size_t i);

typedef struct {
  const char *tensor; /* "name" or "name:0"; any tensor may be fed, it cuts the graph there */
  od_tensor value;    /* dense; borrowed for the run */
} od_tfgraph_feed;

/* Runs what the fetches need. fetched[i] is an owned tensor (od_tensor_free); on failure none is left to free. Errors: an
 * unknown tensor, a node of an unknown op (OD_EUNSUPPORTED), wrong types or shapes, Assert's message (OD_EDATA). One run at
 * a time a graph. Convolutions, products and pooling run on the cpu engine's kernels with OpenMP's threads: the
 * same number of threads gives the same bits. A convolution of a constant filter takes a bias, frozen batch norm and activation
 * that alone read it along, where none of them is fetched; that changes results by rounding. */
OD_MUST_CHECK od_status od_tfgraph_run(od_tfgraph *g, const od_tfgraph_feed *feeds, int n_feeds,
                                       const char *const *fetches, int n_fetches, od_tensor *fetched);

/* For files nobody vouches for: the largest value in bytes (otherwise 16 GiB), the most rounds of a loop (otherwise ten
 * million) and the most work of later runs; beyond them a run fails with OD_EDATA. Work is counted in elements read, written
 * or multiplied, over all nodes and rounds of a run, an empty dimension as one element; INT64_MAX (otherwise): unlimited. */
void od_tfgraph_limit(od_tfgraph *g, size_t value_bytes, int64_t rounds, int64_t work);

/* Checks every node of the file as a run checks those it needs: op, attributes, number of inputs. TensorFlow refuses a file for
 * any of its nodes, also those that no fetch needs. */
OD_MUST_CHECK od_status od_tfgraph_check(od_tfgraph *g);

/* Whether the interpreter knows the op; for listing what a file would need. */
bool od_tfgraph_knows(const char *op);

#endif
