"""What was random in these images: every draw of a batch as arrays, before any pixel or box is touched.

An output image is made of one or two views (the second one is blended in by mixup). A view is a canvas with up to nine
images on it as tiles, transformed by a matrix. Then come pasted objects, colour and flips. Boxes (`labels`) and pixels
(the renderers) follow the same plan.

Axes: B images of the batch, V = 2 views, T = 9 tiles.
"""

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from yolofast.augment import draws as geometry
from yolofast.augment.by_head import HeadPolicy
from yolofast.augment.draws import Doubles, DrawTable, beta_8_8, between, uniform, whole
from yolofast.augment.recipe import Recipe
from yolofast.image_index import Ints
from yolofast.structures import BatchMix

Bools = npt.NDArray[np.bool_]
Mask = npt.NDArray[np.uint8]

FILL = 114
"""Grey level where there is no image."""
TILES = 9
_VIEWS = 2
_DRAWS = 112


@dataclass(frozen=True, kw_only=True)
class Plan:
    width: int
    height: int
    recipe: Recipe
    source_BVT: Ints
    """Which image a tile shows; -1 where there is no tile. Later tiles cover earlier ones."""
    corner_BVT2: Ints
    """Where on the canvas the upper left corner of that image is, possibly outside of it."""
    tile_BVT4: Ints
    """x1, y1, x2, y2 of what is shown of it on the canvas, x2 and y2 exclusive."""
    canvas_BV2: Ints
    """Width and height of the canvas."""
    matrix_BV33: Doubles
    """Canvas to output."""
    scale_BV: Doubles
    """How much that enlarges."""
    blend_B: Doubles
    """Weight of the first view; 1 if there is no second."""
    colour_B3: Doubles
    """Hue, saturation, value: factors (YOLOv7) or levels to add (YOLOX)."""
    flip_B2: Bools
    """Upside down; left to right."""
    key: tuple[int, int]
    """Seed and epoch, for the draws of pasted objects."""
    positions: Ints
    """[B]"""
    pastes: "Pastes" = field(default_factory=lambda: Pastes.none())
    copies: "Copies" = field(default_factory=lambda: Copies.none())

    def __len__(self) -> int:
        return len(self.positions)

    def mix(self, which: slice = slice(None)) -> BatchMix:
        """Of these images of the plan."""
        source_nVT = self.source_BVT[which]
        return BatchMix(float((source_nVT[:, 0, 1] >= 0).mean()), float((source_nVT[:, 1, 0] >= 0).mean()))

    def sources(self) -> Ints:
        """The images whose pixels are needed, each once, in order."""
        return np.unique(np.concatenate((self.source_BVT[self.source_BVT >= 0], self.pastes.source)))

    def renumbered(self, images: Ints) -> "Plan":
        """The same plan for a store that holds only `images` (in order), in that order."""
        place = np.where(self.source_BVT >= 0, np.searchsorted(images, self.source_BVT), -1)
        pastes = replace(self.pastes, source=np.searchsorted(images, self.pastes.source))
        return replace(self, source_BVT=place, pastes=pastes)


@dataclass(frozen=True)
class Pastes:
    """P objects of other images, cut out along their polygons and laid on the output before flips, in this order."""

    image: Ints
    """[P] which image of the batch, ascending."""
    source: Ints
    """[P] the image the object is from."""
    crop: Doubles
    """[P, 4] x1, y1, w, h of the object in that image as stored."""
    place: Ints
    """[P, 4] x1, y1, w, h on the output."""
    masks: tuple[Mask, ...]
    """P masks `[h, w]` of the place, 1 where the object is."""

    @staticmethod
    def none() -> "Pastes":
        empty = np.zeros(0, np.int64)
        return Pastes(empty, empty, np.zeros((0, 4)), np.zeros((0, 4), np.int64), ())


@dataclass(frozen=True)
class Copies:
    """Canvases on which objects appear a second time, mirrored: where the mask is 1, the mirrored pixel is shown."""

    view: Ints
    """[C] which views, b · V + v, ascending."""
    masks: tuple[Mask, ...]
    """C masks of the canvas's size."""

    @staticmethod
    def none() -> "Copies":
        return Copies(np.zeros(0, np.int64), ())


def draw_plan(
    recipe: Recipe,
    images: npt.ArrayLike,
    positions: npt.ArrayLike,
    stored_sizes: Ints,
    width: int,
    height: int,
    *,
    seed: int = 0,
    epoch: int = 0,
    labelled: Ints | None = None,
    heads: HeadPolicy | None = None,
) -> Plan:
    """The plan of a batch: `images` of the data set at `positions` of the epoch.

    `stored_sizes` are the widths and heights of all images as stored, fitted to the output's size. `labelled` are the
    images that have boxes: YOLOX blends in no others.
    """
    position = np.asarray(positions, dtype=np.int64)
    first = np.asarray(images, dtype=np.int64)
    draws = DrawTable(uniform(seed, epoch, position, _DRAWS))
    is_mosaic = draws.take(1)[:, 0] < recipe.mosaic
    is_nine = draws.take(_VIEWS) < recipe.nine
    source_BVT = whole(len(stored_sizes), draws.take(_VIEWS, TILES))
    source_BVT[:, 0, 0] = first
    shown_BV = np.where(is_mosaic[:, None], np.where(is_nine, 9, 4), 1)
    source_BVT = np.where(np.arange(TILES) < shown_BV[..., None], source_BVT, -1)
    centre, crop = draws.take(_VIEWS, 2), draws.take(_VIEWS, 2)
    strength = _Strength.of(recipe, source_BVT, is_mosaic[:, None] & ~is_nine, draws.take(_VIEWS), heads)
    mixed = is_mosaic & (draws.take(1)[:, 0] < strength.mixup_B)
    blend = beta_8_8(draws.take(15))
    canvas_BV2, corner_BVT2 = _lay_out(
        source_BVT, stored_sizes, is_mosaic, is_nine, centre, crop, width, height, recipe.style == "yolox"
    )
    matrix_BV33, scale_BV = _transform(recipe, strength, canvas_BV2, is_mosaic, width, height, draws)
    sizes = stored_sizes[np.maximum(source_BVT, 0)]
    jitter, jitter_place, other = draws.take(1)[:, 0], draws.take(3), draws.take(1)[:, 0]
    if recipe.style == "yolox":
        candidates = np.arange(len(stored_sizes)) if labelled is None or not len(labelled) else labelled
        other_image = candidates[whole(len(candidates), other)]
        blend = np.full(len(first), 0.5)
        view = _jittered_view(recipe, jitter, jitter_place, width, height)
        source_BVT[:, 1], sizes[:, 1, 0] = -1, stored_sizes[other_image]
        source_BVT[:, 1, 0], corner_BVT2[:, 1] = other_image, 0
        matrix_BV33[:, 1], scale_BV[:, 1], canvas_BV2[:, 1] = view[0], view[1], (width, height)
    source_BVT[~mixed, 1] = -1
    tile_BVT4 = geometry.clipped_rectangles(corner_BVT2, sizes, canvas_BV2[:, :, None])
    tile_BVT4[source_BVT < 0] = 0
    return Plan(
        width=width,
        height=height,
        recipe=recipe,
        source_BVT=source_BVT,
        corner_BVT2=corner_BVT2,
        tile_BVT4=tile_BVT4,
        canvas_BV2=canvas_BV2,
        matrix_BV33=matrix_BV33,
        scale_BV=scale_BV,
        blend_B=np.where(mixed, blend, 1.0),
        colour_B3=_colour(recipe, draws.take(1)[:, 0], draws.take(3), draws.take(3)),
        flip_B2=draws.take(2) < strength.flip_B2,
        key=(seed, epoch),
        positions=position,
    )


@dataclass(frozen=True)
class _Strength:
    """How strong each view's transform is, which may depend on what is in it."""

    degrees_BV: Doubles
    shear_BV: Doubles
    mixup_B: Doubles
    flip_B2: Doubles

    @staticmethod
    def of(
        recipe: Recipe, source_BVT: Ints, is_four_BV: Bools, pick_BV: Doubles, heads: HeadPolicy | None
    ) -> "_Strength":
        shape = source_BVT.shape[:2]
        degrees, shear = np.full(shape, recipe.degrees), np.full(shape, recipe.shear)
        mixup, flip = np.full(shape[0], recipe.mixup), np.tile((recipe.flipud, recipe.fliplr), (shape[0], 1))
        if heads is None:
            return _Strength(degrees, shear, mixup, flip)
        head_BV = heads.pick(source_BVT, pick_BV)
        applies = is_four_BV if heads.faithful else np.ones_like(is_four_BV)
        degrees = np.where(applies, heads.degrees[head_BV], degrees)
        shear = np.where(applies, heads.shear[head_BV], shear)
        if not heads.faithful:
            first = head_BV[:, 0]
            mixup, flip = heads.mixup[first], np.stack((heads.flipud[first], heads.fliplr[first]), axis=-1)
        return _Strength(degrees, shear, mixup, flip)


def _lay_out(
    source_BVT: Ints, stored_sizes: Ints, is_mosaic: Bools, is_nine: Bools, centre: Doubles, crop: Doubles,
    width: int, height: int, top_left: bool,
) -> tuple[Ints, Ints]:  # fmt: skip
    """The canvas of each view, and where on it the upper left corners of its images are."""
    size_BVT2 = stored_sizes[np.maximum(source_BVT, 0)]
    shape = source_BVT.shape[:2]
    output = np.array((width, height))
    canvas_BV2 = np.where(is_mosaic[:, None, None], 2 * output, output) + np.zeros((*shape, 1), np.int64)
    flat = size_BVT2.reshape(-1, TILES, 2)
    corner_BVT2 = np.zeros_like(size_BVT2)
    centre_at = between(0.5 * output, 1.5 * output, centre).astype(np.int64).reshape(-1, 2)
    corner_BVT2[:, :, :4] = geometry.four_corners(flat[:, :4], centre_at).reshape(*shape, 4, 2)
    crop_at = whole(output, crop)
    nine = geometry.nine_corners(flat, width, height).reshape(size_BVT2.shape) - crop_at[:, :, None]
    corner_BVT2 = np.where(is_nine[:, :, None, None], nine, corner_BVT2)
    # One image alone: in the middle (YOLOv7 rounds half a pixel down), or in the corner (YOLOX).
    alone = np.round((output - size_BVT2[:, :, :1]) / 2 - 0.1).astype(np.int64) * (not top_left)
    return canvas_BV2, np.where(is_mosaic[:, None, None, None], corner_BVT2, alone)


def _transform(
    recipe: Recipe, strength: _Strength, canvas_BV2: Ints, is_mosaic: Bools, width: int, height: int, draws: DrawTable
) -> tuple[Doubles, Doubles]:
    """Canvas to output, and the scale in it."""
    shape = canvas_BV2.shape[:2]
    angle = (between(-1, 1, draws.take(_VIEWS)) * strength.degrees_BV).ravel()
    scale = between(*recipe.scale, draws.take(_VIEWS)).ravel()
    shear = (between(-1, 1, draws.take(_VIEWS, 2)) * strength.shear_BV[..., None]).reshape(-1, 2)
    shift = between(-recipe.translate, recipe.translate, draws.take(_VIEWS, 2)).reshape(-1, 2)
    perspective = between(-recipe.perspective, recipe.perspective, draws.take(_VIEWS, 2)).reshape(-1, 2)
    if recipe.style == "yolov7":
        canvas = canvas_BV2.reshape(-1, 2)
        matrix = geometry.centred_transform(canvas, width, height, angle, scale, shear, 0.5 + shift, perspective)
    else:
        matrix = geometry.cornered_transform(width, height, angle, scale, shear, shift)
        alone = np.repeat(~is_mosaic, _VIEWS)
        matrix[alone], scale = np.eye(3), np.where(alone, 1.0, scale)
    return matrix.reshape(*shape, 3, 3), scale.reshape(shape)


def _jittered_view(recipe: Recipe, jitter: Doubles, place: Doubles, width: int, height: int) -> tuple[Doubles, Doubles]:
    """YOLOX's mixup partner: fitted to the output, resized by a random factor, maybe mirrored, cut or padded."""
    factor = between(*recipe.mixup_scale, jitter)
    mirrored = place[:, 0] < 0.5
    # The letterboxed partner, resized: mirrored within its own width, then shifted so that a random part is visible.
    side_n2 = (np.array((width, height)) * factor[:, None]).astype(np.int64)
    room_n2 = np.maximum(side_n2 - np.array((width, height)), 0)
    shift_n2 = whole(np.maximum(room_n2, 1), place[:, 1:])
    matrix = geometry.identity(len(factor))
    matrix[:, 0, 0] = np.where(mirrored, -factor, factor)
    matrix[:, 1, 1] = factor
    # Resizing keeps the outer edges in place, not the pixel centres.
    edge = 0.5 * factor - 0.5
    matrix[:, 0, 2] = np.where(mirrored, side_n2[:, 0] - 1 - edge, edge) - shift_n2[:, 0]
    matrix[:, 1, 2] = edge - shift_n2[:, 1]
    return matrix, factor


def _colour(recipe: Recipe, whether: Doubles, draws: Doubles, per_channel: Doubles) -> Doubles:
    change = between(-1, 1, draws) * np.array(recipe.hsv)
    changes = (whether < recipe.colour)[:, None]
    if recipe.style == "yolov7":
        return np.where(changes, 1 + change, 1.0)
    return np.where(changes & (per_channel < 0.5), np.trunc(change), 0.0)
