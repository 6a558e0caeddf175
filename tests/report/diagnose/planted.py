"""Made-up runs whose trouble is known, because it was put there."""

import numpy as np

from yolofast.report.logs.history import Batches, Epochs, History

EPOCHS, PER_EPOCH, IMAGES = 40, 50, 16
LR, WARM_UP = 0.01, 3
MOSAIC, MIXUP = 0.5, 0.4
SIZES = np.arange(256, 512, 32)


def lr_of(share, flat=False):
    """By the share of the run: a warm-up, then a cosine, or nothing."""
    warm_up = WARM_UP / EPOCHS
    down = LR * (0.02 + 0.98 * (1 + np.cos(np.pi * share)) / 2)
    return np.where(share < warm_up, LR * share / warm_up, LR if flat else down)


def made_up(
    rng,
    course,
    *,
    noise=0.03,
    factor=None,
    val=None,
    score=None,
    flat=False,
    more_boxes=1.0,
    mosaic=MOSAIC,
    mixup=MIXUP,
    sizes=None,
):
    """`course`: share of the run -> the loss without noise; `factor`: contents of batches -> what multiplies theirs."""
    count = EPOCHS * PER_EPOCH
    share = np.arange(count) / count
    mosaics = rng.binomial(IMAGES, mosaic, count)
    mixups = rng.binomial(mosaics, mixup)
    boxes = rng.poisson(7 * IMAGES * (1 + more_boxes * mosaics / IMAGES))
    contents = {
        "mosaic": mosaics / IMAGES,
        "mixup": mixups / IMAGES,
        "boxes": boxes.astype(float),
        "box_size": rng.normal(0.2, 0.02, count),
    }
    if sizes is not None:
        contents["size"] = sizes.astype(float)
    loss = course(share) * (1 + noise * rng.standard_normal(count))
    if factor is not None:
        loss = loss * factor({name: values - values.mean() for name, values in contents.items()})
    epoch = np.arange(count) // PER_EPOCH + 1
    train = loss.reshape(EPOCHS, PER_EPOCH).mean(axis=1)
    ends = np.arange(1, EPOCHS + 1) / EPOCHS
    val_loss = (1.05 * course(ends) if val is None else val(ends)) * (1 + 0.01 * rng.standard_normal(EPOCHS))
    good = (0.4 * (1 - np.exp(-5 * ends)) if score is None else score(ends)) + 0.003 * rng.standard_normal(EPOCHS)
    lr = lr_of(share, flat)
    epochs = Epochs(
        number=np.arange(1, EPOCHS + 1), train=train, val=val_loss, fitness=good, lr=lr[PER_EPOCH - 1 :: PER_EPOCH]
    )
    batches = Batches(epoch=epoch, loss=loss, lr=lr, contents=contents)
    settings = {"lr0": LR, "mosaic": MOSAIC, "mixup": MIXUP, "batch_size": IMAGES, "epochs": EPOCHS}
    return History(source="made up", format="made up", epochs=epochs, batches=batches, settings=settings)


def learns(share):
    return 4 + 6 * np.exp(-share / 0.25)


def clean(rng):
    """Fast and slow learners, calm and lively ones, with the published noise of batches."""
    speed, floor = rng.uniform(0.15, 0.5), rng.uniform(2, 6)
    return made_up(rng, lambda s: floor + rng.uniform(3, 8) * np.exp(-s / speed), noise=rng.uniform(0.01, 0.07))


def noise_only(rng):
    return made_up(rng, learns, noise=0.2)


def lr_too_high(rng):
    """Gradient descent with noise on a bowl, whose excess loss comes and goes with the length of the steps."""
    count = EPOCHS * PER_EPOCH
    curvature = np.geomspace(0.5, 20, 12)
    lr, weights, excess = 8 * lr_of(np.arange(count) / count), np.zeros(12), np.zeros(count)
    for step in range(count):
        excess[step] = curvature @ weights**2 / 2
        weights -= lr[step] * (curvature * weights + 2.0 * np.sqrt(curvature) * rng.standard_normal(12))
    return made_up(rng, lambda s: learns(s) + (excess if len(s) == count else 0.0), noise=0.03)


def lr_too_high_throughout(rng):
    """The same at a rate that never falls."""
    count = EPOCHS * PER_EPOCH
    curvature = np.geomspace(0.2, 2, 12)
    weights, excess = np.zeros(12), np.zeros(count)
    for step in range(count):
        excess[step] = curvature @ weights**2 / 2
        weights -= 0.1 * (curvature * weights + 2.0 * np.sqrt(curvature) * rng.standard_normal(12))
    return made_up(rng, lambda s: learns(s) + (excess if len(s) == count else 0.0), noise=0.03, flat=True)


def data_mix(rng, **mix):
    return made_up(rng, learns, noise=0.04, factor=lambda c: 1 + 0.5 * c["mosaic"] + 0.2 * c["mixup"], **mix)


def box_counts(rng):
    """Mosaics do not have more boxes here: otherwise they would be the cause."""
    factor = lambda c: 1 + 0.004 * c["boxes"] - 1.0 * c["box_size"]  # noqa: E731
    return made_up(rng, learns, noise=0.02, more_boxes=0.0, factor=factor)


def drawn_sizes(rng, every):
    """Another size every so many batches."""
    count = EPOCHS * PER_EPOCH
    return np.repeat(rng.choice(SIZES, -(-count // every)), every)[:count]


def image_sizes(rng, form, every, flat=False):
    """A loss that follows the size of the images: `line`, or `bend`, lowest in the middle."""
    half = np.ptp(SIZES) / 2
    effects = {
        "line": lambda c: 1 + 0.08 * c["size"] / half,
        "bend": lambda c: 1 + 0.16 * ((c["size"] / half) ** 2 - 0.43),
    }
    return made_up(rng, learns, noise=0.04, factor=effects[form], flat=flat, sizes=drawn_sizes(rng, every))


def overfit(rng, score=lambda s: 0.4 * (1 - np.exp(-5 * np.minimum(s, 0.45))) - 0.1 * np.maximum(s - 0.45, 0)):
    def val(share):
        return 1.05 * learns(np.minimum(share, 0.45)) * (1 + 0.4 * np.maximum(share - 0.45, 0))

    return made_up(rng, learns, val=val, score=score)


def overfit_but_scores_rise(rng):
    return overfit(rng, score=None)


def plateau(rng):
    return made_up(rng, lambda s: learns(np.minimum(s, 0.3)), flat=True)


def diverges(rng):
    return made_up(rng, lambda s: learns(s) * np.exp(4 * np.maximum(s - 0.7, 0)))


def breaks(rng):
    history = made_up(rng, learns)
    history.batches.loss[1500:1510] = np.inf
    return history


def oscillates(rng):
    period = 3.7 / EPOCHS
    return made_up(rng, lambda s: learns(s) * (1 + 0.05 * np.sin(2 * np.pi * s / period)), noise=0.05)


def spikes(rng, count=5):
    """A few batches far above the others, at places of no pattern."""
    history = made_up(rng, learns)
    at = np.sort(rng.choice(np.arange(400, EPOCHS * PER_EPOCH), count, replace=False))
    history.batches.loss[at] *= rng.uniform(3, 8, count)
    return history
