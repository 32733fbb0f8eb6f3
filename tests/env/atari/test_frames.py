"""The kernels for screens, beside OpenCV and by definition."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlfast._core import AreaResize, grey

cv2: Any = pytest.importorskip("cv2", reason="opencv-python is not installed")

Frame = NDArray[np.uint8]


def noise(*shape: int, seed: int = 0, levels: int = 256) -> Frame:
    """Random pixels of a few or of all levels of brightness."""
    rng = np.random.default_rng(seed)
    return (rng.integers(0, levels, shape) * (255 // (levels - 1))).astype(np.uint8)


def resized(frame: Frame, target: tuple[int, int], other: Frame | None = None) -> Frame:
    out = np.empty(target, np.uint8)
    AreaResize((frame.shape[0], frame.shape[1]), target)(frame, out, other)
    return out


def test_luminance_is_opencvs_for_every_colour() -> None:
    levels = np.arange(256, dtype=np.uint8)
    colours = np.stack(np.meshgrid(levels, levels, indexing="ij"), axis=-1)
    out = np.empty((256, 256), np.uint8)
    for blue in range(0, 256, 5):
        rgb = np.concatenate([colours, np.full((256, 256, 1), blue, np.uint8)], axis=-1)
        grey(rgb, out)
        assert (out == cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)).all()


@pytest.mark.parametrize("source", [(210, 160), (250, 160), (230, 160), (214, 160), (84, 84), (100, 33)])
@pytest.mark.parametrize("target", [(84, 84), (42, 30), (1, 1)])
@pytest.mark.parametrize("levels", [2, 256])
def test_resizing_is_opencvs_but_for_halves(source: tuple[int, int], target: tuple[int, int], levels: int) -> None:
    if target[1] > source[1]:
        target = (target[0], source[1])
    frame = noise(*source, levels=levels)
    mean = means(frame, target)
    ours, theirs = resized(frame, target), cv2.resize(frame, target[::-1], interpolation=cv2.INTER_AREA)
    is_half = abs(mean % 1 - 0.5) < 1e-6
    assert (ours == np.round(mean))[~is_half].all()
    assert (ours[is_half] % 2 == 0).all()
    assert (ours == theirs)[~is_half].all()
    assert (abs(ours.astype(int) - theirs) <= 1).all()


def means(frame: Frame, target: tuple[int, int]) -> NDArray[np.float64]:
    """The means of the areas that pixels cover, by the definition."""

    def weights(source: int, target: int) -> NDArray[np.float64]:
        edges = np.arange(target + 1) * source / target
        pixels = np.arange(source)
        overlap = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
        return np.clip(overlap, 0, None) * target / source

    return weights(frame.shape[0], target[0]) @ frame @ weights(frame.shape[1], target[1]).T


def test_the_brighter_of_two_frames_is_resized() -> None:
    first, second = noise(210, 160, seed=1), noise(210, 160, seed=2)
    assert (resized(first, (84, 84), second) == resized(np.maximum(first, second), (84, 84))).all()
    assert (resized(first, (84, 84), second) == resized(second, (84, 84), first)).all()


def test_rows_and_columns_are_not_mixed_up() -> None:
    frame = np.zeros((210, 160), np.uint8)
    frame[:105], frame[:, :40] = 100, 200
    out = resized(frame, (4, 4))
    assert out[0].tolist() == [200, 100, 100, 100]
    assert out[3].tolist() == [200, 0, 0, 0]


class TestWrongArguments:
    @pytest.mark.parametrize(
        ("source", "target", "message"),
        [
            ((0, 5), (1, 1), "each number must be from 1 to the frame's"),
            ((5, 5), (6, 5), "each number must be from 1 to the frame's"),
            ((10**12, 5), (5, 5), "too large: at most 4096"),
            ((263, 160), (84, 84), "at most 257"),
        ],
    )
    def test_sizes(self, source: tuple[int, int], target: tuple[int, int], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            AreaResize(source, target)

    def test_shapes(self) -> None:
        resize, out = AreaResize((4, 4), (2, 2)), np.full((2, 2), 7, np.uint8)
        with pytest.raises(ValueError, match=r"frame must have shape \[4, 4\], got \[4, 5\]"):
            resize(noise(4, 5), out)
        with pytest.raises(ValueError, match=r"other must have shape \[4, 4\], got \[2, 4\]"):
            resize(noise(4, 4), out, noise(2, 4))
        with pytest.raises(ValueError, match=r"out must have shape \[2, 2\], got \[4, 4\]"):
            resize(noise(4, 4), noise(4, 4))
        with pytest.raises(ValueError, match=r"rgb must have shape \[2, 2, 3\], as out, got \[4, 2, 3\]"):
            grey(noise(4, 2, 3), out)
        assert (out == 7).all()

    def test_types_and_gaps(self) -> None:
        resize, out = AreaResize((4, 4), (2, 2)), np.empty((2, 2), np.uint8)
        with pytest.raises(TypeError):
            resize(noise(4, 4).astype(np.float32), out)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="contiguous"):
            resize(noise(4, 8)[:, ::2], out)
