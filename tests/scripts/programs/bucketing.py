# SPDX-License-Identifier: Apache-2.0
"""A language model of sentences in buckets, with an LSTM of mx.rnn."""
import mxnet as mx
import numpy as np

rng = np.random.RandomState(5)
sentences = []
for _ in range(300):
    first, length = rng.randint(0, 12), rng.choice([4, 6, 7])
    sentences.append(['w%d' % ((first + 5 * i) % 12) for i in range(length)])
coded, vocab = mx.rnn.encode_sentences(sentences, invalid_label=0, start_label=1)
print(len(vocab), coded[0] == [vocab[w] for w in sentences[0]])

buckets = [5, 8]
batch_size = 10
data_train = mx.rnn.BucketSentenceIter(coded, batch_size, buckets=buckets, invalid_label=0)
print(data_train.default_bucket_key, [(d.name, d.shape, d.layout) for d in data_train.provide_data])

stack = mx.rnn.SequentialRNNCell()
stack.add(mx.rnn.LSTMCell(num_hidden=24, prefix='lstm_l0_'))
stack.add(mx.rnn.DropoutCell(0.0))


def sym_gen(seq_len):
    data = mx.sym.Variable('data')
    label = mx.sym.Variable('softmax_label')
    embed = mx.sym.Embedding(data=data, input_dim=len(vocab) + 1, output_dim=16, name='embed')
    stack.reset()
    outputs, states = stack.unroll(seq_len, inputs=embed, merge_outputs=True)
    pred = mx.sym.Reshape(outputs, shape=(-1, 24))
    pred = mx.sym.FullyConnected(data=pred, num_hidden=len(vocab) + 1, name='pred')
    label = mx.sym.Reshape(label, shape=(-1,))
    pred = mx.sym.SoftmaxOutput(data=pred, label=label, use_ignore=True, ignore_label=0, name='softmax')
    return pred, ('data',), ('softmax_label',)


mx.random.seed(1)
model = mx.mod.BucketingModule(sym_gen=sym_gen, default_bucket_key=data_train.default_bucket_key, context=mx.cpu())
metric = mx.metric.Perplexity(0)
model.fit(train_data=data_train, eval_metric=metric, kvstore='local', optimizer='adam',
          optimizer_params={'learning_rate': 0.02}, initializer=mx.init.Xavier(factor_type="in", magnitude=2.34),
          num_epoch=6)
data_train.reset()
metric.reset()
model.score(data_train, metric)
print(metric.name, 'below 1.2', metric.get()[1] < 1.2)
arg, _ = model.get_params()
print(sorted((k, v.shape) for k, v in arg.items()))
