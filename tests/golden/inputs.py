import zlib

import numpy as np
import torch


def rng(name):
    return np.random.RandomState(zlib.crc32(name.encode()) & 0xFFFFFFFF)


def fill(model):
    """Deterministic weights: value depends on the state-dict key and shape alone."""
    sd = model.state_dict()
    for k, v in sd.items():
        if not v.dtype.is_floating_point or "anchor" in k:
            continue
        r = rng(k).standard_normal(v.numel()).reshape(tuple(v.shape))
        if k.endswith("running_var"):
            a = np.exp(0.2 * r)
        elif k.endswith("running_mean"):
            a = 0.1 * r
        elif k.endswith(".implicit"):
            a = (0.02 * r) if ".ia" in k else (1 + 0.02 * r)
        elif k.endswith("bias"):
            a = 0.1 * r
        elif v.ndim == 1:
            a = 1 + 0.1 * r
        else:
            a = r * np.sqrt(2.0 / np.prod(v.shape[1:]))
        v.copy_(torch.from_numpy(a.astype(np.float32)))
    return model


def image(name, b, size):
    return torch.from_numpy(rng(name).rand(b, 3, size, size).astype(np.float32))


def targets(name, b, nc, mean, lo=0.02, hi=0.9):
    r = rng(name)
    rows = []
    for i in range(b):
        n = r.poisson(mean)
        for _ in range(n):
            w, h = np.clip(np.exp(r.randn(2) * 0.7 - 1.6), lo, hi)
            rows.append([i, r.randint(nc), *np.clip(r.rand(2), 0.02, 0.98), w, h])
    return torch.from_numpy(np.array(rows, np.float32).reshape(-1, 6))


def preds(name, b, na, nc, sizes, scale=1.0, obj_bias=-1.0, cls_bias=-1.0):
    out = []
    for i, s in enumerate(sizes):
        p = rng(f"{name}.{i}").standard_normal((b, na, s, s, 5 + nc)).astype(np.float32) * scale
        p[..., 4] += obj_bias
        p[..., 5:] += cls_bias
        out.append(torch.from_numpy(p))
    return out
