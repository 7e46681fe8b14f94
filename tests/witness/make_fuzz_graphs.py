#!/usr/bin/env python3
"""make_fuzz_graphs.py DIR: small TensorFlow graphs, one for each family of nodes, where the graph fuzzer starts from. Made with
TensorFlow 2.15.1 in its v1 mode."""
import os
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.disable_control_flow_v2()


def save(name, make):
    g = tf.Graph()
    with g.as_default():
        make()
    with open(os.path.join(sys.argv[1], name), "wb") as f:
        f.write(g.as_graph_def().SerializeToString(deterministic=True))


def P(*shape):
    return tf.placeholder(tf.float32, shape)


save('map',lambda: tf.map_fn(lambda v: v*2+1,P(None,3)))
save('conv',lambda: tf.nn.relu6(tf.nn.bias_add(tf.nn.conv2d(P(1,6,6,2),tf.constant(np.ones((3,3,2,4),'f')),[1,2,2,1],'SAME'),tf.constant(np.ones(4,'f')))))
save('dw',lambda: tf.nn.max_pool(tf.nn.depthwise_conv2d(P(1,6,6,2),tf.constant(np.ones((3,3,2,2),'f')),[1,1,1,1],'VALID'),[1,2,2,1],[1,2,2,1],'SAME'))
save('nms',lambda: tf.image.non_max_suppression(P(5,4),P(5),3,0.5))
save('crop',lambda: tf.image.crop_and_resize(P(1,5,5,2),P(3,4),[0,0,0],[2,3]))
save('slice',lambda: tf.concat([tf.transpose(P(3,4)[:, ::-1]), tf.reshape(tf.tile(P(3),[4]),[-1,3])],0))
save('topk',lambda: tf.where(tf.greater(tf.nn.top_k(P(7),3)[0],0.5)))
save('cond',lambda: tf.cond(P()>0, lambda: tf.constant(1.), lambda: tf.constant(2.)))
save('mat',lambda: tf.nn.softmax(tf.matmul(P(2,3),tf.constant(np.ones((3,4),'f')))))
save('resize',lambda: tf.image.resize_bilinear(P(1,3,4,2),[5,6]))
save('pad',lambda: tf.reduce_sum(tf.pad(P(2,3),[[1,1],[0,2]]),[1],keepdims=True))
save('gather',lambda: tf.gather(tf.unstack(P(3,4))[1],[0,2])+tf.cast(tf.size(P(2)),tf.float32))
save('ex',lambda: tf.image.decode_jpeg(tf.parse_single_example(tf.placeholder(tf.string,[]),{'image/encoded':tf.FixedLenFeature([],tf.string,'')})['image/encoded'],3))
save('stb',lambda: tf.batch_to_space_nd(tf.space_to_batch_nd(P(1,4,4,2),[2,2],[[0,0],[0,0]]),[2,2],[[0,0],[0,0]]))
save('onehot',lambda: tf.one_hot(tf.argmax(P(2,3),1),3))
save('empty',lambda: tf.image.resize_bilinear(P(1,1,1,0),[60000,60000]))
save('bn',lambda: tf.nn.fused_batch_norm(P(1,3,3,2),[1.,1.],[0.,0.],[0.,0.],[1.,1.],is_training=False)[0])
