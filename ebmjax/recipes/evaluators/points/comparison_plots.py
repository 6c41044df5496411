"""Pictures of a comparison of samplers in the plane."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from ebmjax.recipes.evaluators.plots import arrange, figure, open_figure, shape
from ebmjax.recipes.evaluators.points.density_plots import COLUMNS, energy_map
from ebmjax.recipes.evaluators.points.settings import SETTINGS
from ebmjax.recipes.parts.samplers import SAMPLERS

Chains = dict[str, np.ndarray]
"""A sampler's positions (chains, steps, 2), burn-in included, by its name."""
SHOWN = 2000
MILLISECONDS = 120


def draw(plots: Path, found: Any, look: Any) -> None:
    """Draws ``eval_<kind>_<setting>``: scatter, traces and steps, and an animation of chains.

    Args:
      plots: folder.
      found: by the evaluator.
      look: the evaluator, whose half_width, num_steps, burn_in and num_frames are read here.
    """
    log_density, starts = found.arrays["log_density"], found.arrays["starts"]
    for setting in SETTINGS:
        numbers = found.report[setting]
        chains = {name: found.arrays[f"{setting}.{name}"] for name in numbers}
        path = plots / f"eval_scatter_{setting}.png"
        scatter(path, chains, log_density, numbers, look)
        traces(plots / f"eval_traces_{setting}.png", chains, look)
        stills(plots / f"eval_steps_{setting}.png", chains, starts, log_density, look)
        animation(plots / f"eval_chains_{setting}.gif", chains, starts, log_density, look)


def scatter(path: Path, chains: Chains, log_density: np.ndarray, numbers: Any, look: Any) -> None:
    """Plots draws after the burn-in over the learned energy, a colour a chain."""
    with figure(path, *shape(len(chains), COLUMNS), size=(2.8, 3.3)) as grid:
        for axes, (name, positions) in zip(grid.flat, chains.items(), strict=False):
            energy_map(axes, log_density, look.half_width)
            kept = positions[:, look.burn_in :]
            every = max(1, kept.shape[0] * kept.shape[1] // SHOWN)
            for i, chain in enumerate(kept):
                axes.plot(*chain[::every].T, ".", ms=2.5, color=shade(i), mew=0)
            axes.set_title(f"{title(name)}\nR-hat {numbers[name]['rhat_classic']:.3g}")


def traces(path: Path, chains: Chains, look: Any) -> None:
    """Plots both coordinates of every chain against the step, within the map."""
    with figure(path, 2, len(chains), size=(2.4, 2.2), sharex=True, sharey=True) as grid:
        for column, (name, positions) in zip(grid.T, chains.items(), strict=True):
            every = max(1, positions.shape[1] // 500)
            steps = np.arange(1, positions.shape[1] + 1)[::every]
            for i, chain in enumerate(positions):
                for axes, values in zip(column, chain[::every].T, strict=True):
                    axes.plot(steps, values, lw=0.7, color=shade(i))
            for axes in column:
                axes.axvline(look.burn_in, color="0.3", ls=":")
                axes.set_ylim(-look.half_width, look.half_width)
            column[0].set_title(title(name))
            column[1].set_xlabel("step")
        grid[0, 0].set_ylabel("first coordinate")
        grid[1, 0].set_ylabel("second coordinate")


def stills(path: Path, chains: Chains, starts: Any, log_density: Any, look: Any) -> None:
    """Draws chains after few and many steps, a row a sampler, with their way.

    A chain beyond the map is drawn at its edge.
    """
    times = [0, *moments(10, look.num_steps, 4)]
    dot: dict[str, Any] = {"ms": 3.5, "mec": "white", "mew": 0.4, "clip_on": False}
    with figure(path, len(chains), len(times), size=(1.9, 1.9)) as grid:
        for row, (name, positions) in zip(grid, chains.items(), strict=True):
            path_so_far = np.concatenate([starts[:, None], positions], axis=1)
            for axes, time in zip(row, times, strict=True):
                energy_map(axes, log_density, look.half_width)
                # Only the last tenth of the way: all of it would hide the density.
                tail = path_so_far[:, time - time // 10 : time + 1]
                for i, way in enumerate(tail):
                    axes.plot(*way.T, lw=0.5, color=shade(i))
                    axes.plot(*within(way[-1], look), "o", color=shade(i), **dot)
            row[0].set_ylabel(title(name))
        for axes, time in zip(grid[0], times, strict=True):
            axes.set_title(f"step {time}")


def animation(path: Path, chains: Chains, starts: Any, log_density: Any, look: Any) -> None:
    """Draws all samplers, faster and faster, in an endless GIF; edges as in ``stills``."""
    if not look.num_frames:
        return
    style: dict[str, Any] = {"s": 34, "edgecolors": "white", "lw": 0.6, "clip_on": False}
    images = []
    with open_figure(*shape(len(chains), COLUMNS), size=(2.2, 2.4)) as grid:
        dots = []
        for axes, name in zip(grid.flat, chains, strict=False):
            energy_map(axes, log_density, look.half_width)
            axes.set_title(title(name))
            dots.append(axes.scatter(*starts.T, c=[*map(shade, range(len(starts)))], **style))
        film = grid[0, 0].figure
        arrange(film)
        clock = film.text(0.01, 0.01, "")
        frame = frames(film, [*dots, clock])
        for time in (0, *moments(1, look.num_steps, look.num_frames)):
            for artist, positions in zip(dots, chains.values(), strict=True):
                artist.set_offsets(within(starts if time == 0 else positions[:, time - 1], look))
            clock.set_text(f"step {time}")
            images.append(frame())
    images[0].save(
        path, save_all=True, append_images=images[1:], duration=MILLISECONDS, loop=0, optimize=True
    )


def frames(film: Figure, artists: list[Any]) -> Callable[[], Image.Image]:
    """Returns a function that draws ``artists`` at their place; the background is drawn once."""
    for artist in artists:
        artist.set_animated(True)
    film.set_dpi(80)
    canvas = FigureCanvasAgg(film)
    canvas.draw()
    background = canvas.copy_from_bbox(film.bbox)

    def frame() -> Image.Image:
        canvas.restore_region(background)
        for artist in artists:
            film.draw_artist(artist)
        image = Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy())
        # The usual palette loses rare colours, which are those of the chains.
        return image.quantize(256, Image.Quantize.FASTOCTREE)

    return frame


def within(positions: np.ndarray, look: Any) -> np.ndarray:
    """Returns ``positions``, moved to the edge of the map if they lie beyond."""
    return np.clip(positions, -look.half_width, look.half_width)


def moments(first: int, last: int, num: int) -> list[int]:
    """Returns at most ``num`` steps from ``first`` to ``last``, evenly spaced in logarithm."""
    return sorted({round(step) for step in np.geomspace(first, last, num)})


def title(name: str) -> str:
    """Returns a sampler's name for pictures and tables; of a user's, that of its function."""
    return SAMPLERS[name].title if name in SAMPLERS else name.replace("_", " ")


def shade(chain: int) -> Any:
    """Returns a chain's colour, readable on red and blue."""
    return matplotlib.colormaps["tab20"](2 * chain % 20 + (chain >= 10))
