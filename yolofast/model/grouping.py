"""Groupings of classes into heads computed from a data set's labels.

Pure functions on arrays: the command line reads the labels (`dataset.split`) and uses the grouping. scikit-learn is
needed here only, so it is an extra and imported when a grouping is computed.
"""

import importlib
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from yolofast.errors import UserError
from yolofast.model.head_config import HeadConfig, HeadGroup

_TALL_BELOW, _WIDE_ABOVE = 0.75, 1.3
_SMALLEST_SIDE_PX = 1.0
_BALANCE_SLACK, _BALANCE_ROUNDS = 5, 100


@dataclass(frozen=True, kw_only=True)
class LabelStatistics:
    """Every box of a data set: its image, its class, its size in pixels of the original image."""

    image_index: npt.NDArray[np.int64]
    """[N]; any numbering, only equality matters."""
    class_id: npt.NDArray[np.int64]
    """[N], 0…nc-1."""
    box_wh_px: npt.NDArray[np.floating[Any]]
    """[N, 2] width and height."""
    nc: int

    def __post_init__(self) -> None:
        n = len(self.class_id)
        shapes = self.image_index.shape, self.class_id.shape, self.box_wh_px.shape
        if shapes != ((n,), (n,), (n, 2)):
            raise UserError(f"image_index, class_id and box_wh_px must be [N], [N] and [N, 2], not {shapes}")
        if n and not 0 <= self.class_id.min() <= self.class_id.max() < self.nc:
            raise UserError(f"class ids must be 0 to nc - 1 = {self.nc - 1}, got {self.class_id.max()}")
        if not np.isfinite(self.box_wh_px).all():
            raise UserError("box sizes must be finite")


def geometry_grouping(labels: LabelStatistics, heads: int = 4, seed: int = 42) -> HeadConfig:
    """Classes of similar shape together: k-means on the mean ln(width / height) of each class, tall heads first."""
    _check_head_count(labels.nc, heads)
    log_ratio_C = mean_log_ratio(labels)
    distinct = len(np.unique(log_ratio_C))
    if distinct < heads:
        raise UserError(
            f"the classes have {distinct} distinct mean shapes, too few for {heads} heads",
            fix=f"ask for at most {distinct} heads, or give labels in which more classes occur",
        )
    kmeans = _sklearn_cluster().KMeans(n_clusters=heads, n_init=10, random_state=seed).fit(log_ratio_C[:, None])
    centres = kmeans.cluster_centers_[:, 0]
    order = np.argsort(centres)
    names = _unique_names([_shape_name(float(np.exp(centres[cluster]))) for cluster in order])
    groups = [np.flatnonzero(kmeans.labels_ == cluster) for cluster in order]
    return _config("geometry", labels.nc, names, groups)


def hybrid_grouping(
    labels: LabelStatistics,
    heads: int = 4,
    seed: int = 42,
    *,
    alpha: float = 0.5,
    beta: float = 0.5,
    balance: bool = True,
) -> HeadConfig:
    """Classes alike in shape (weight `alpha`) or that occur in the same images (weight `beta`) together.

    Spectral clustering of `class_similarity`; `balance` then evens out heads more than 5 classes from the average.
    """
    _check_head_count(labels.nc, heads)
    similarity_CC = class_similarity(labels, alpha, beta)
    if heads in (1, labels.nc):  # nothing to choose, and the eigen solver refuses as many vectors as classes
        cluster_C = np.arange(labels.nc) % heads
    else:
        spectral = _sklearn_cluster().SpectralClustering(heads, affinity="precomputed", random_state=seed)
        cluster_C = spectral.fit_predict(similarity_CC)
    found = len(np.unique(cluster_C))
    if found < heads:
        raise UserError(f"only {found} of {heads} groups can be distinguished", fix=f"ask for {found} heads")
    if balance:
        cluster_C = balance_clusters(cluster_C, similarity_CC, heads)
    groups = sorted((np.flatnonzero(cluster_C == cluster) for cluster in range(heads)), key=lambda group: int(group[0]))
    return _config("hybrid", labels.nc, [f"hybrid-{i}" for i in range(heads)], groups)


def mean_log_ratio(labels: LabelStatistics) -> npt.NDArray[np.float64]:
    """[C] mean ln(width / height) over boxes with both sides above one pixel; 0 (square) for a class without any."""
    usable = (labels.box_wh_px > _SMALLEST_SIDE_PX).all(1)
    wh, class_id = labels.box_wh_px[usable].astype(np.float64), labels.class_id[usable]
    total = np.bincount(class_id, np.log(wh[:, 0] / wh[:, 1]), minlength=labels.nc)
    count = np.bincount(class_id, minlength=labels.nc)
    return np.asarray(total / np.maximum(count, 1), dtype=np.float64)


def cooccurrence(labels: LabelStatistics) -> npt.NDArray[np.float64]:
    """[C, C] Jaccard index: images with both classes / images with either; 0 where neither occurs."""
    image, image_row = np.unique(labels.image_index, return_inverse=True)
    shape = (len(image), labels.nc)
    present = sparse.coo_array((np.ones(len(image_row)), (image_row, labels.class_id)), shape=shape).tocsr()
    present.data[:] = 1.0  # several boxes of a class in one image count once
    both = (present.T @ present).toarray()
    either = both.diagonal()[:, None] + both.diagonal()[None, :] - both
    return np.asarray(both / np.maximum(either, 1.0), dtype=np.float64)


def class_similarity(labels: LabelStatistics, alpha: float = 0.5, beta: float = 0.5) -> npt.NDArray[np.float64]:
    """[C, C] α·exp(-2Δ²) + β·Jaccard, Δ the difference of mean ln ratios, α and β scaled to sum to 1; diagonal 1."""
    if not (0 <= alpha < np.inf and 0 <= beta < np.inf and alpha + beta > 0):
        raise UserError(f"alpha and beta must be at least 0 and not both 0, got {alpha} and {beta}", fix="0.5 and 0.5")
    log_ratio_C = mean_log_ratio(labels)
    shape_CC = np.exp(-2.0 * (log_ratio_C[:, None] - log_ratio_C[None, :]) ** 2)
    similarity_CC = (alpha * shape_CC + beta * cooccurrence(labels)) / (alpha + beta)
    np.fill_diagonal(similarity_CC, 1.0)
    return similarity_CC


def balance_clusters(
    cluster_C: npt.NDArray[np.int64], similarity_CC: npt.NDArray[np.float64], heads: int
) -> npt.NDArray[np.int64]:
    """While one cluster is over n/k + 5 and another under n/k - 5, the largest gives the smallest its nearest class."""
    cluster_C, average = cluster_C.copy(), len(cluster_C) / heads
    for _ in range(_BALANCE_ROUNDS):
        sizes = np.bincount(cluster_C, minlength=heads)
        if sizes.max() <= average + _BALANCE_SLACK or sizes.min() >= average - _BALANCE_SLACK:
            break
        donors = np.flatnonzero(cluster_C == sizes.argmax())
        smallest = int(sizes.argmin())
        affinity = similarity_CC[donors][:, cluster_C == smallest].mean(1)
        cluster_C[donors[affinity.argmax()]] = smallest
    return cluster_C


def _config(grouping: str, nc: int, names: list[str], groups: list[npt.NDArray[np.int64]]) -> HeadConfig:
    heads = tuple(
        HeadGroup(name=name, classes=tuple(int(c) for c in group)) for name, group in zip(names, groups, strict=True)
    )
    return HeadConfig(nc=nc, grouping=grouping, heads=heads)


def _shape_name(width_over_height: float) -> str:
    return "tall" if width_over_height < _TALL_BELOW else "wide" if width_over_height > _WIDE_ABOVE else "square"


def _unique_names(names: list[str]) -> list[str]:
    """tall, square-1, square-2, wide: numbered where repeated, so that a log line names one head."""
    total, number = Counter(names), Counter[str]()
    unique = []
    for name in names:
        number[name] += 1
        unique.append(name if total[name] == 1 else f"{name}-{number[name]}")
    return unique


def _check_head_count(nc: int, heads: int) -> None:
    if not 1 <= heads <= nc:
        fix = f"ask for 1 to {nc} heads"
        raise UserError(f"{nc} classes cannot be split into {heads} heads: every head needs at least one", fix=fix)


def _sklearn_cluster() -> Any:
    try:
        return importlib.import_module("sklearn.cluster")
    except ImportError as error:
        raise UserError("grouping classes needs scikit-learn", fix="pip install 'yolofast[grouping]'") from error
