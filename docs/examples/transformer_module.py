# SPDX-License-Identifier: Apache-2.0
"""The Transformer of `transformer.py` as a symbol, trained as a Module."""

import numpy as np
from transformer import BATCH, HEADS, LENGTH, STEPS, WIDTH, WORDS, sentences

import mx

PLACES = 2 * LENGTH


def dense(x, units):
    """A layer at each place."""
    return mx.sym.FullyConnected(x, num_hidden=units, flatten=False)


def attention(x):
    """Each place looks at itself and at what came before."""
    # (batch, places, 3 · heads · size) to three times (batch · heads, places, size)
    parts = mx.sym.transpose(mx.sym.reshape(dense(x, 3 * WIDTH), (0, 0, 3 * HEADS, -1)), (0, 2, 1, 3))
    parts = mx.sym.split(parts, num_outputs=3, axis=1)
    query, key, value = (mx.sym.reshape(part, (-3, 0, 0)) for part in parts)
    scores = mx.sym.batch_dot(query, key, transpose_b=True) * (HEADS / WIDTH) ** 0.5
    place = mx.sym.arange(PLACES)
    later = mx.sym.broadcast_greater(mx.sym.reshape(place, (1, 1, -1)), mx.sym.reshape(place, (1, -1, 1)))
    seen = mx.sym.batch_dot(mx.sym.softmax(mx.sym.broadcast_add(scores, later * -1e9)), value)
    seen = mx.sym.transpose(mx.sym.reshape(seen, (-4, -1, HEADS, 0, 0)), (0, 2, 1, 3))
    return dense(mx.sym.reshape(seen, (0, 0, -3)), WIDTH)


def layer(x):
    """Attention, then two layers at each place, both added to what goes in."""
    x = x + attention(mx.sym.LayerNorm(x))
    hidden = mx.sym.LeakyReLU(dense(mx.sym.LayerNorm(x), 4 * WIDTH), act_type="gelu")
    return x + dense(hidden, WIDTH)


def transformer():
    """Chances of the next word at the places behind the mark; what comes before it cannot be foretold."""
    words = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=WORDS + 1, output_dim=WIDTH)
    places = mx.sym.Variable("places", shape=(1, PLACES, WIDTH), init=mx.init.Normal(0.1))
    x = layer(layer(mx.sym.broadcast_add(words, places)))
    scores = dense(mx.sym.LayerNorm(mx.sym.slice_axis(x, axis=1, begin=LENGTH, end=None)), WORDS)
    return mx.sym.SoftmaxOutput(scores, mx.sym.Variable("label"), preserve_shape=True, normalization="valid")


def main():
    mx.random.seed(1)
    rng = np.random.default_rng(1)
    rate = mx.lr_scheduler.CosineScheduler(STEPS, base_lr=3e-3, final_lr=1e-4, warmup_steps=50)
    settings = {"learning_rate": 3e-3, "lr_scheduler": rate, "rescale_grad": 1.0}
    module = mx.mod.Module(transformer(), label_names=["label"])
    module.bind([("data", (BATCH, PLACES))], [("label", (BATCH, LENGTH))])
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer="adam", optimizer_params=settings)
    perplexity = mx.metric.Perplexity(ignore_label=None)
    for step in range(STEPS):
        x, y = sentences(rng, BATCH)
        module.forward_backward(mx.io.DataBatch([x], [y]))
        module.update()
        if step % 100 == 0:
            perplexity.reset()
            module.update_metric(perplexity, [y])
            print(f"step {step}: perplexity {perplexity.get()[1]:.3f}")
    x, y = sentences(rng, 500)
    found = module.predict(mx.io.NDArrayIter(x, y, BATCH, label_name="label")).argmax(axis=2)
    right = float((found == y).mean().asscalar())
    print(f"{right:.2%} of the words of 500 new sentences are right")
    assert right >= 0.99


if __name__ == "__main__":
    main()
