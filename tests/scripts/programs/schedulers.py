# SPDX-License-Identifier: Apache-2.0
"""Schedules of the learning rate, alone and in an optimizer."""
import logging

import mxnet as mx

logging.disable(logging.INFO)
steps = [1, 5, 10, 11, 20, 35, 50, 60, 80, 90, 100]
factor = mx.lr_scheduler.FactorScheduler(step=10, factor=0.5, stop_factor_lr=1e-3)
factor.base_lr = 0.4
multi = mx.lr_scheduler.MultiFactorScheduler(step=[15, 40], factor=0.1)
multi.base_lr = 1.0
poly = mx.lr_scheduler.PolyScheduler(max_update=60, base_lr=0.1, pwr=2)
cosine = mx.lr_scheduler.CosineScheduler(max_update=90, base_lr=0.3, final_lr=0.01, warmup_steps=10,
                                         warmup_begin_lr=0.0, warmup_mode='linear')
for name, schedule in [('factor', factor), ('multi', multi), ('poly', poly), ('cosine', cosine)]:
    print(name, ' '.join('%.6f' % schedule(step) for step in steps))


class Triangle(mx.lr_scheduler.LRScheduler):
    def __call__(self, num_update):
        place = num_update % 10
        return self.base_lr * (place if place <= 5 else 10 - place) / 5


opt = mx.optimizer.SGD(learning_rate=0.5, lr_scheduler=Triangle())
updater = mx.optimizer.get_updater(opt)
weight = mx.nd.array([1.0, 2.0])
for _ in range(12):
    updater(0, mx.nd.array([0.1, -0.1]), weight)
print(' '.join('%.5f' % v for v in weight.asnumpy()), opt.num_update, '%.3f' % opt.learning_rate)

adam = mx.optimizer.create('adam', learning_rate=0.01,
                           lr_scheduler=mx.lr_scheduler.FactorScheduler(3, 0.5, base_lr=0.01))
weight, state = mx.nd.ones((2,)), adam.create_state(0, mx.nd.ones((2,)))
for _ in range(8):
    adam.update(0, weight, weight * 0.5, state)
print(' '.join('%.6f' % v for v in weight.asnumpy()))
plain = mx.optimizer.SGD(learning_rate=0.1)
plain.set_lr_mult({'a': 0.5})
plain.set_learning_rate(0.2)
print(plain.learning_rate)
