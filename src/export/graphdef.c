/* The inference graph as a TensorFlow graph: placeholder, decoding where the input is encoded, the nodes of ours that the
 * outputs need, and an Identity under each output's name. */
#include "export/graphdef.h"

#include <string.h>

static const char *const input_names[] = {"image_tensor", "encoded_image_string_tensor", "tf_example"};

const char *od_export_input_name(int input) {
  return input >= 0 && input < (int)(sizeof input_names / sizeof *input_names) ? input_names[input] : NULL;
}

od_status od_export_input_from_name(od_export_input *out, const char *name) {
  for (int i = 0; od_export_input_name(i); i++) {
    if (strcmp(name, input_names[i]) != 0) continue;
    *out = (od_export_input)i;
    return OD_OK;
  }
  return od_fail(OD_EUSAGE, "'%s' is no input type; there are image_tensor, encoded_image_string_tensor, tf_example",
                 name);
}

od_type od_export_input_type(const od_export_spec *spec) {
  if (spec->input != OD_EXPORT_IMAGE_TENSOR) return (od_type){OD_STRING, OD_SHAPE(-1)};
  return (od_type){OD_U8, spec->input_shape.rank ? spec->input_shape : OD_SHAPE(-1, -1, -1, 3)};
}

int od_export_model_outputs(od_export_output *out, const od_model *model) {
  static const char *const names[OD_EXPORT_OUTPUTS] = {
      "detection_boxes",     "detection_scores", "detection_multiclass_scores", "detection_features",
      "detection_classes",   "num_detections",   "raw_detection_boxes",         "raw_detection_scores",
      "detection_keypoints", "detection_masks"};
  int n = 0;
  for (int i = 0; i < OD_EXPORT_OUTPUTS; i++) {
    od_value v = od_named_get(&model->detections, names[i]);
    bool classes = strcmp(names[i], "detection_classes") == 0;
    if (od_has(v)) out[n++] = (od_export_output){names[i], v, classes ? 1 : 0};
  }
  return n;
}

static const char *placeholder(od_tf *t, const od_export_spec *spec) {
  od_type type = od_export_input_type(spec);
  const char *name = od_tf_add(t, "Placeholder", input_names[spec->input], NULL);
  od_tf_attr_type(t, "dtype", type.dtype);
  od_tf_attr_shape(t, "shape", &type.shape);
  return name;
}

/* The encoded picture of each Example. ParseExample with one dense key: an Example without it gives an empty string, which
 * the decoder refuses. */
static const char *examples(od_tf *t, const char *serialized) {
  od_bytes key = {(char *)(uintptr_t) "image/encoded", 13}, empty = {(char *)(uintptr_t) "", 0};
  const char *names = od_tf_const(t, "ParseExample/names", &(od_tensor){OD_STRING, OD_SHAPE(0), &empty});
  const char *keys = od_tf_const(t, "ParseExample/dense_keys_0", &(od_tensor){OD_STRING, OD_SCALAR, &key});
  const char *otherwise = od_tf_const(t, "ParseExample/default_0", &(od_tensor){OD_STRING, OD_SCALAR, &empty});
  const char *out =
      od_tf_add(t, "ParseExample", "ParseExample/ParseExample", OD_TF_INPUTS(serialized, names, keys, otherwise));
  od_tf_attr_int(t, "Nsparse", 0);
  od_tf_attr_int(t, "Ndense", 1);
  od_tf_attr_types(t, "sparse_types", NULL, 0);
  od_tf_attr_types(t, "Tdense", (od_dtype[]){OD_STRING}, 1);
  od_tf_attr_shapes(t, "dense_shapes", &OD_SCALAR, 1);
  return out;
}

/* Decodes one string after the other, as the original's map over the batch: pictures of one batch have one size. DecodeJpeg,
 * not DecodeImage: in every TensorFlow it reads JPEG, PNG and GIF, and TensorFlow 1.x does not have the other. */
static const char *decode(od_tf *t, const char *strings) {
  const char *zero = od_tf_const_i32(t, "map/zero", 0), *one = od_tf_const_i32s(t, "map/first", (int32_t[]){0}, 1),
             *two = od_tf_const_i32s(t, "map/second", (int32_t[]){1}, 1);
  const char *shape = od_tf_add(t, "Shape", "map/Shape", OD_TF_INPUTS(strings));
  od_tf_attr_type(t, "T", OD_STRING);
  od_tf_attr_type(t, "out_type", OD_I32);
  const char *batch = od_tf_add(t, "StridedSlice", "map/strided_slice", OD_TF_INPUTS(shape, one, two, two));
  od_tf_attr_type(t, "T", OD_I32);
  od_tf_attr_type(t, "Index", OD_I32);
  od_tf_attr_int(t, "shrink_axis_mask", 1);
  const char *in = od_tf_array(t, "map/TensorArray", OD_STRING, batch);
  const char *in_flow =
      od_tf_array_scatter(t, "map/TensorArrayUnstack", OD_STRING, in, strings, od_tf_output(t, in, 1));
  const char *out = od_tf_array(t, "map/TensorArray_1", OD_U8, batch);
  const char *inits[] = {zero, od_tf_output(t, out, 1)};
  od_tf_loop *w = od_tf_while(t, "map/while", inits, (od_dtype[]){OD_I32, OD_F32}, 2);
  const char *limit = od_tf_while_const(t, w, batch, OD_I32);
  const char *less = od_tf_add(t, "Less", "map/while/Less", OD_TF_INPUTS(od_tf_while_var(w, 0), limit));
  od_tf_attr_type(t, "T", OD_I32);
  od_tf_while_cond(t, w, less);
  const char *handle_in = od_tf_while_handle(t, w, in), *flow_in = od_tf_while_const(t, w, in_flow, OD_F32);
  const char *handle_out = od_tf_while_handle(t, w, out);
  const char *i = od_tf_while_var(w, 0), *flow = od_tf_while_var(w, 1);
  const char *text = od_tf_array_read(t, "map/while/TensorArrayRead", OD_STRING, handle_in, i, flow_in);
  const char *picture = od_tf_add(t, "DecodeJpeg", "map/while/DecodeJpeg", OD_TF_INPUTS(text));
  od_tf_attr_int(t, "channels", 3);
  const char *written = od_tf_array_write(t, "map/while/TensorArrayWrite", OD_U8, handle_out, i, picture, flow);
  const char *step = od_tf_const_i32(t, "map/while/one", 1);
  const char *next = od_tf_add(t, "Add", "map/while/add", OD_TF_INPUTS(i, step));
  od_tf_attr_type(t, "T", OD_I32);
  od_tf_while_end(t, w, OD_TF_INPUTS(next, written));
  return od_tf_array_gather(t, "map/TensorArrayStack", OD_U8, out, batch, od_tf_while_result(w, 1),
                            &OD_SHAPE(-1, -1, 3));
}

static void bind_variable(od_tf *t, const od_export_spec *spec, const od_variable *v, bool frozen) {
  const char *name;
  od_tf_begin(t, v->name);
  if (frozen) {
    const od_tensor *value = od_state_tensor(spec->state, v->name);
    if (!value) {
      od_tf_fail(t, od_fail(OD_EINVAL, "the state holds no variable %s", v->name));
      return;
    }
    name = od_tf_const_borrowed(t, NULL, value);
  } else {
    name = od_tf_add(t, "VariableV2", NULL, NULL);
    od_tf_attr_type(t, "dtype", v->dtype);
    od_tf_attr_shape(t, "shape", &v->shape);
    od_tf_attr_text(t, "container", "");
    od_tf_attr_text(t, "shared_name", "");
  }
  const char *read = od_tf_add(t, "Identity", "read", OD_TF_INPUTS(name));
  od_tf_attr_type(t, "T", v->dtype);
  od_tf_bind(t, v->value, read);
}

/* What the outputs need, backwards to the pictures. */
static void mark(bool *need, const od_export_spec *spec) {
  for (int i = 0; i < spec->n_outputs; i++)
    if (od_has(spec->outputs[i].value)) need[spec->outputs[i].value.node->id] = true;
  for (size_t i = od_graph_size(spec->graph); i-- > 0;) {
    const od_node *n = od_graph_node(spec->graph, i);
    if (!need[n->id] || n == spec->images.node) continue;
    for (int k = 0; k < n->n_in; k++)
      if (n->in[k].node) need[n->in[k].node->id] = true;
  }
}

static od_status write_nodes(od_tf *t, const od_export_spec *spec, bool *need, bool frozen) {
  mark(need, spec);
  for (size_t i = 0; i < od_graph_size(spec->graph); i++) {
    od_node *n = od_graph_node(spec->graph, i);
    od_value v = {n, 0};
    if (!need[n->id] || n == spec->images.node) continue;
    const od_variable *variable = od_variable_of(spec->graph, v);
    if (variable) {
      bind_variable(t, spec, variable, frozen);
    } else if (strcmp(n->op->name, "const") == 0) {
      od_tf_begin(t, n->name);
      od_tf_bind(t, v, od_tf_const_borrowed(t, NULL, &((const od_const_params *)n->params)->value));
    } else if (strcmp(n->op->name, "input") == 0) {
      return od_fail(OD_EINVAL, "the outputs need input %s, which an exported graph has not", n->name);
    } else {
      OD_TRY(od_tf_node(t, n));
    }
  }
  return od_tf_check(t);
}

static od_status write_output(od_tf *t, const od_export_output *o) {
  if (!od_has(o->value)) return od_fail(OD_EINVAL, "output %s is absent", o->name);
  od_dtype dtype = od_type_of(o->value).dtype;
  const char *tensor = od_tf_bound(t, o->value);
  if (!tensor) return od_fail(OD_EINVAL, "output %s was not written", o->name);
  od_tf_begin(t, "");
  if (o->add != 0) {
    if (dtype != OD_F32)
      return od_fail(OD_EINVAL, "output %s is %s, only floats can be shifted", o->name, od_dtype_name(dtype));
    tensor = od_tf_add(t, "Add", "add", OD_TF_INPUTS(tensor, od_tf_const_f32(t, "add/y", o->add)));
    od_tf_attr_type(t, "T", OD_F32);
  }
  const char *name = od_tf_add(t, "Identity", o->name, OD_TF_INPUTS(tensor));
  od_tf_attr_type(t, "T", dtype);
  OD_TRY(od_tf_check(t));
  return strcmp(name, o->name) == 0 ? OD_OK
                                    : od_fail(OD_EINVAL, "a node of the graph has the name of output %s", o->name);
}

static od_status build(od_tf *t, const od_export_spec *spec, bool frozen, bool *need) {
  /* the outputs' names are taken first of all by nobody: the graph's own nodes stand in scopes */
  const char *input = placeholder(t, spec);
  if (spec->input == OD_EXPORT_TF_EXAMPLE) input = examples(t, input);
  if (spec->input != OD_EXPORT_IMAGE_TENSOR) input = decode(t, input);
  const char *cast = od_tf_add(t, "Cast", "Cast", OD_TF_INPUTS(input));
  od_tf_attr_type(t, "SrcT", OD_U8);
  od_tf_attr_type(t, "DstT", OD_F32);
  OD_TRY(od_tf_check(t));
  od_tf_bind(t, spec->images, cast);
  OD_TRY(write_nodes(t, spec, need, frozen));
  const char **keep;
  for (int i = 0; i < spec->n_outputs; i++) OD_TRY(write_output(t, &spec->outputs[i]));
  OD_TRY(od_new(&keep, (size_t)spec->n_outputs + 1, sizeof *keep));
  for (int i = 0; i < spec->n_outputs; i++) keep[i] = spec->outputs[i].name;
  od_tf_prune(t, keep, spec->n_outputs);
  od_free(keep);
  return od_tf_check(t);
}

od_status od_export_graphdef(od_tf **out, const od_export_spec *spec, bool frozen) {
  od_tf *t = NULL;
  bool *need = NULL;
  od_status st;
  *out = NULL;
  OD_TRY(od_graph_check(spec->graph));
  if (!od_has(spec->images) || od_type_of(spec->images).dtype != OD_F32)
    return od_fail(OD_EINVAL, "the graph's pictures must be a float value");
  if (spec->input != OD_EXPORT_IMAGE_TENSOR && spec->input_shape.rank)
    return od_fail(OD_EUNSUPPORTED, "an input shape goes with image_tensor only, not with %s",
                   input_names[spec->input]);
  if (spec->input_shape.rank && spec->input_shape.rank != 4)
    return od_fail(OD_EINVAL, "the input shape must have 4 dimensions");
  OD_TRY(od_new(&need, od_graph_size(spec->graph) + 1, sizeof *need));
  memset(need, 0, (od_graph_size(spec->graph) + 1) * sizeof *need);
  OD_GO(st, od_tf_new(&t));
  OD_GO(st, build(t, spec, frozen, need));
  *out = t;
  t = NULL;
done:
  od_tf_free(t);
  od_free(need);
  return st;
}
