"""A second Inception-v3 of the FID, written from its description in PyTorch's terms.

Nothing here is shared with ebmjax: channels before pixels, weights under PyTorch's names, explicit
paddings, float64. The primitives are NumPy's, or any others with the same four functions.
"""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

EPSILON = 1e-3


class NumpyPrimitives:
    """Convolution, normalisation and pooling of (N, C, H, W), by gathering every window."""

    @staticmethod
    def conv(x, weight, stride, padding):
        x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
        windows = sliding_window_view(x, weight.shape[2:], axis=(2, 3))[:, :, ::stride, ::stride]
        return np.moveaxis(np.tensordot(windows, weight, ([1, 4, 5], [1, 2, 3])), -1, 1)

    @staticmethod
    def normalise(x, mean, var, weight, bias):
        mean, var, weight, bias = (v[:, None, None] for v in (mean, var, weight, bias))
        return (x - mean) / np.sqrt(var + EPSILON) * weight + bias

    @staticmethod
    def average_pool(x):
        """3x3, stride 1, padding 1; pixels outside the image do not count."""
        filled = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=np.nan)
        return np.nanmean(sliding_window_view(filled, (3, 3), axis=(2, 3)), axis=(-2, -1))

    @staticmethod
    def max_pool(x, stride, padding):
        edge = (padding, padding)
        filled = np.pad(x, [(0, 0), (0, 0), edge, edge], constant_values=-np.inf)
        windows = sliding_window_view(filled, (3, 3), axis=(2, 3))[:, :, ::stride, ::stride]
        return windows.max((-2, -1))

    concatenate = staticmethod(lambda branches: np.concatenate(branches, axis=1))


class Reference:
    """``layers[name](x)`` for every layer of the network, in order."""

    def __init__(self, state_dict, primitives=NumpyPrimitives):
        self.weights, self.ops = state_dict, primitives
        a, b, c, d = self.block_a, self.block_b, self.block_c, self.block_d
        self.layers = {
            "Conv2d_1a_3x3": lambda x: self.unit("Conv2d_1a_3x3", x, stride=2),
            "Conv2d_2a_3x3": lambda x: self.unit("Conv2d_2a_3x3", x),
            "Conv2d_2b_3x3": lambda x: self.unit("Conv2d_2b_3x3", x, padding=(1, 1)),
            "Conv2d_3b_1x1": lambda x: self.unit("Conv2d_3b_1x1", self.ops.max_pool(x, 2, 0)),
            "Conv2d_4a_3x3": lambda x: self.unit("Conv2d_4a_3x3", x),
            "Mixed_5b": lambda x: a("Mixed_5b", self.ops.max_pool(x, 2, 0)),
            "Mixed_5c": lambda x: a("Mixed_5c", x),
            "Mixed_5d": lambda x: a("Mixed_5d", x),
            "Mixed_6a": lambda x: b("Mixed_6a", x),
            "Mixed_6b": lambda x: c("Mixed_6b", x),
            "Mixed_6c": lambda x: c("Mixed_6c", x),
            "Mixed_6d": lambda x: c("Mixed_6d", x),
            "Mixed_6e": lambda x: c("Mixed_6e", x),
            "Mixed_7a": lambda x: d("Mixed_7a", x),
            "Mixed_7b": lambda x: self.block_e("Mixed_7b", x, self.ops.average_pool(x)),
            "Mixed_7c": lambda x: self.block_e("Mixed_7c", x, self.ops.max_pool(x, 1, 1)),
        }

    def unit(self, name, x, stride=1, padding=(0, 0)):
        w = self.weights
        x = self.ops.conv(x, w[f"{name}.conv.weight"], stride, padding)
        statistics = w[f"{name}.bn.running_mean"], w[f"{name}.bn.running_var"]
        x = self.ops.normalise(x, *statistics, w[f"{name}.bn.weight"], w[f"{name}.bn.bias"])
        return x * (x > 0)

    def block_a(self, name, x):
        def unit(part, x, padding=(0, 0)):
            return self.unit(f"{name}.{part}", x, padding=padding)

        five = unit("branch5x5_2", unit("branch5x5_1", x), (2, 2))
        double = unit("branch3x3dbl_2", unit("branch3x3dbl_1", x), (1, 1))
        double = unit("branch3x3dbl_3", double, (1, 1))
        pool = unit("branch_pool", self.ops.average_pool(x))
        return self.ops.concatenate([unit("branch1x1", x), five, double, pool])

    def block_b(self, name, x):
        single = self.unit(f"{name}.branch3x3", x, stride=2)
        double = self.unit(f"{name}.branch3x3dbl_1", x)
        double = self.unit(f"{name}.branch3x3dbl_2", double, padding=(1, 1))
        double = self.unit(f"{name}.branch3x3dbl_3", double, stride=2)
        return self.ops.concatenate([single, double, self.ops.max_pool(x, 2, 0)])

    def block_c(self, name, x):
        def row(part, x):  # one high, seven wide
            return self.unit(f"{name}.{part}", x, padding=(0, 3))

        def column(part, x):
            return self.unit(f"{name}.{part}", x, padding=(3, 0))

        seven = row("branch7x7_2", self.unit(f"{name}.branch7x7_1", x))
        seven = column("branch7x7_3", seven)
        double = column("branch7x7dbl_2", self.unit(f"{name}.branch7x7dbl_1", x))
        double = column("branch7x7dbl_4", row("branch7x7dbl_3", double))
        double = row("branch7x7dbl_5", double)
        pool = self.unit(f"{name}.branch_pool", self.ops.average_pool(x))
        return self.ops.concatenate([self.unit(f"{name}.branch1x1", x), seven, double, pool])

    def block_d(self, name, x):
        three = self.unit(f"{name}.branch3x3_1", x)
        three = self.unit(f"{name}.branch3x3_2", three, stride=2)
        seven = self.unit(f"{name}.branch7x7x3_1", x)
        seven = self.unit(f"{name}.branch7x7x3_2", seven, padding=(0, 3))
        seven = self.unit(f"{name}.branch7x7x3_3", seven, padding=(3, 0))
        seven = self.unit(f"{name}.branch7x7x3_4", seven, stride=2)
        return self.ops.concatenate([three, seven, self.ops.max_pool(x, 2, 0)])

    def block_e(self, name, x, pooled):
        def unit(part, x, padding=(0, 0)):
            return self.unit(f"{name}.{part}", x, padding=padding)

        single = unit("branch3x3_1", x)
        double = unit("branch3x3dbl_2", unit("branch3x3dbl_1", x), (1, 1))
        branches = [
            unit("branch1x1", x),
            unit("branch3x3_2a", single, (0, 1)),
            unit("branch3x3_2b", single, (1, 0)),
            unit("branch3x3dbl_3a", double, (0, 1)),
            unit("branch3x3dbl_3b", double, (1, 0)),
            unit("branch_pool", pooled),
        ]
        return self.ops.concatenate(branches)


def unit_shapes():
    """(name, (out, in, height, width)) of every convolution, as PyTorch stores them."""
    yield from {
        "Conv2d_1a_3x3": (32, 3, 3, 3),
        "Conv2d_2a_3x3": (32, 32, 3, 3),
        "Conv2d_2b_3x3": (64, 32, 3, 3),
        "Conv2d_3b_1x1": (80, 64, 1, 1),
        "Conv2d_4a_3x3": (192, 80, 3, 3),
    }.items()
    for name, channels, pool in (("5b", 192, 32), ("5c", 256, 64), ("5d", 288, 64)):
        yield f"Mixed_{name}.branch1x1", (64, channels, 1, 1)
        yield f"Mixed_{name}.branch5x5_1", (48, channels, 1, 1)
        yield f"Mixed_{name}.branch5x5_2", (64, 48, 5, 5)
        yield f"Mixed_{name}.branch3x3dbl_1", (64, channels, 1, 1)
        yield f"Mixed_{name}.branch3x3dbl_2", (96, 64, 3, 3)
        yield f"Mixed_{name}.branch3x3dbl_3", (96, 96, 3, 3)
        yield f"Mixed_{name}.branch_pool", (pool, channels, 1, 1)
    yield "Mixed_6a.branch3x3", (384, 288, 3, 3)
    yield "Mixed_6a.branch3x3dbl_1", (64, 288, 1, 1)
    yield "Mixed_6a.branch3x3dbl_2", (96, 64, 3, 3)
    yield "Mixed_6a.branch3x3dbl_3", (96, 96, 3, 3)
    for name, width in (("6b", 128), ("6c", 160), ("6d", 160), ("6e", 192)):
        yield f"Mixed_{name}.branch1x1", (192, 768, 1, 1)
        yield f"Mixed_{name}.branch7x7_1", (width, 768, 1, 1)
        yield f"Mixed_{name}.branch7x7_2", (width, width, 1, 7)
        yield f"Mixed_{name}.branch7x7_3", (192, width, 7, 1)
        yield f"Mixed_{name}.branch7x7dbl_1", (width, 768, 1, 1)
        yield f"Mixed_{name}.branch7x7dbl_2", (width, width, 7, 1)
        yield f"Mixed_{name}.branch7x7dbl_3", (width, width, 1, 7)
        yield f"Mixed_{name}.branch7x7dbl_4", (width, width, 7, 1)
        yield f"Mixed_{name}.branch7x7dbl_5", (192, width, 1, 7)
        yield f"Mixed_{name}.branch_pool", (192, 768, 1, 1)
    yield "Mixed_7a.branch3x3_1", (192, 768, 1, 1)
    yield "Mixed_7a.branch3x3_2", (320, 192, 3, 3)
    yield "Mixed_7a.branch7x7x3_1", (192, 768, 1, 1)
    yield "Mixed_7a.branch7x7x3_2", (192, 192, 1, 7)
    yield "Mixed_7a.branch7x7x3_3", (192, 192, 7, 1)
    yield "Mixed_7a.branch7x7x3_4", (192, 192, 3, 3)
    for name, channels in (("7b", 1280), ("7c", 2048)):
        yield f"Mixed_{name}.branch1x1", (320, channels, 1, 1)
        yield f"Mixed_{name}.branch3x3_1", (384, channels, 1, 1)
        yield f"Mixed_{name}.branch3x3_2a", (384, 384, 1, 3)
        yield f"Mixed_{name}.branch3x3_2b", (384, 384, 3, 1)
        yield f"Mixed_{name}.branch3x3dbl_1", (448, channels, 1, 1)
        yield f"Mixed_{name}.branch3x3dbl_2", (384, 448, 3, 3)
        yield f"Mixed_{name}.branch3x3dbl_3a", (384, 384, 1, 3)
        yield f"Mixed_{name}.branch3x3dbl_3b", (384, 384, 3, 1)
        yield f"Mixed_{name}.branch_pool", (192, channels, 1, 1)


def random_state_dict(seed=0):
    """Random weights under PyTorch's names, scaled so that activations stay near one."""
    rng = np.random.default_rng(seed)
    state_dict = {}

    def add(name, values):
        state_dict[name] = np.asarray(values, np.float32)

    for name, shape in unit_shapes():
        scale = np.sqrt(2 / np.prod(shape[1:]))
        add(f"{name}.conv.weight", scale * rng.standard_normal(shape, np.float32))
        add(f"{name}.bn.weight", rng.uniform(0.8, 1.2, shape[0]))
        add(f"{name}.bn.bias", rng.normal(0, 0.2, shape[0]))
        add(f"{name}.bn.running_mean", rng.normal(0, 0.2, shape[0]))
        add(f"{name}.bn.running_var", rng.uniform(0.5, 1.5, shape[0]))
        state_dict[f"{name}.bn.num_batches_tracked"] = np.array(0)
    add("fc.weight", rng.normal(0, 2048**-0.5, (1008, 2048)))
    add("fc.bias", rng.normal(0, 1, 1008))
    return state_dict
