"""Pictures of a comparison of samplers in the plane, drawn from the run's folder."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

from ebmjax.recipes.core.fields import Config
from ebmjax.recipes.core.plots import INK, curve, finish, legend
from ebmjax.recipes.core.workdir import read_rows, snapshots
from ebmjax.recipes.plane.checks import SETTINGS
from ebmjax.recipes.samplers import SAMPLERS

COLUMNS = 4
SHOWN = 2000
MILLISECONDS = 120


def draw(workdir: Path, config: Config) -> None:
    """Draws every plot of the training in ``workdir``."""
    plots = workdir / "plots"
    training(plots / "training.png", read_rows(workdir))
    densities(plots / "density.png", snapshots(workdir), config.eval.half_width)


def training(path: Path, rows: list[dict[str, Any]]) -> None:
    """Draws energies, chains' moves and the distance from the data's density, by step."""
    panels = (
        ("energy", ("positive_energy", "negative_energy"), "linear"),
        ("distance a chain travels", ("chain_distance",), "linear"),
        ("chains' acceptance", ("chain_acceptance_prob",), "linear"),
        ("total variation from the data", ("density_tv",), "linear"),
        ("KL(data || model), nats", ("density_kl",), "log"),
        ("gradient norm", ("gradient_norm",), "log"),
    )
    figure, grid = plt.subplots(2, 3, figsize=(12, 6))
    for axes, (label, names, scale) in zip(grid.flat, panels, strict=True):
        for name in names:
            style = {"marker": "o", "ms": 3} if name.startswith("density") else {}
            curve(axes, rows, name, **style)
        axes.set(xlabel="step", ylabel=label, yscale=scale)
    legend(grid[0, 0])
    finish(figure, path)


def densities(path: Path, files: Sequence[Path], half_width: float) -> None:
    """Draws the learned energy at each monitored step, from its file of ``monitor/``."""
    figure, grid = plt.subplots(1, len(files), figsize=(2.4 * len(files), 2.7), squeeze=False)
    for axes, file in zip(grid.flat, files, strict=True):
        with np.load(file) as arrays:
            energy_map(axes, arrays["log_density"], half_width)
        axes.set_title(f"step {int(file.stem)}", fontsize=9)
    finish(figure, path)


def energy_map(axes: Any, log_density: np.ndarray, half_width: float) -> None:
    """Draws the learned energy, low blue and high red as in the thesis."""
    energy = log_density.max() - log_density.T
    extent = (-half_width, half_width, -half_width, half_width)
    axes.imshow(energy, origin="lower", extent=extent, cmap="coolwarm", alpha=0.75)
    axes.set(xticks=[], yticks=[], xlim=extent[:2], ylim=extent[2:])


def evaluation(workdir: Path, config: Config, report: dict[str, Any]) -> None:
    """Draws plots/eval_* of a run from its evaluation.npz."""
    plots, section = workdir / "plots", config.eval
    with np.load(workdir / "evaluation.npz") as arrays:
        log_density = arrays["log_density"]
        for setting in SETTINGS:
            chains = {name: arrays[f"{setting}.{name}"] for name in section.samplers}
            starts = arrays["starts"]
            numbers = report[setting]
            path = plots / f"eval_scatter_{setting}.png"
            scatter(path, chains, log_density, numbers, config)
            traces(plots / f"eval_traces_{setting}.png", chains, config)
            stills(plots / f"eval_steps_{setting}.png", chains, starts, log_density, config)
            path = plots / f"eval_chains_{setting}.gif"
            animation(path, chains, starts, log_density, config)


def squares(num: int, side: float = 2.8) -> tuple[Any, list[Any]]:
    """Returns a figure with a square for each of ``num`` samplers, the others empty."""
    rows = -(-num // COLUMNS)
    columns = min(COLUMNS, num)
    size = (side * columns, (side + 0.5) * rows)
    figure, grid = plt.subplots(rows, columns, figsize=size, squeeze=False)
    for axes in grid.flat[num:]:
        axes.set_visible(False)
    return figure, list(grid.flat[:num])


def scatter(
    path: Path,
    chains: dict[str, np.ndarray],
    log_density: np.ndarray,
    numbers: dict[str, dict[str, float]],
    config: Config,
) -> None:
    """Plots draws after the burn-in over the learned energy, a colour a chain."""
    figure, panels = squares(len(chains))
    for axes, (name, positions) in zip(panels, chains.items(), strict=True):
        energy_map(axes, log_density, config.eval.half_width)
        kept = positions[:, config.eval.burn_in :]
        every = max(1, kept.shape[0] * kept.shape[1] // SHOWN)
        for i, chain in enumerate(kept):
            axes.plot(*chain[::every].T, ".", ms=2.5, color=shade(i), mew=0)
        own = numbers[name]
        axes.set_title(f"{title(name)}\nR-hat {own['rhat_classic']:.3g}", fontsize=9)
    finish(figure, path)


def traces(path: Path, chains: dict[str, np.ndarray], config: Config) -> None:
    """Plots both coordinates of every chain against the step, within the map."""
    figure, grid = plt.subplots(
        2, len(chains), figsize=(2.4 * len(chains), 4.4), squeeze=False, sharex=True, sharey=True
    )
    for column, (name, positions) in zip(grid.T, chains.items(), strict=True):
        every = max(1, positions.shape[1] // 500)
        steps = np.arange(1, positions.shape[1] + 1)[::every]
        for i, chain in enumerate(positions):
            for axes, values in zip(column, chain[::every].T, strict=True):
                axes.plot(steps, values, lw=0.7, color=shade(i))
        for axes in column:
            axes.axvline(config.eval.burn_in, color=INK, lw=0.8, ls=":")
            axes.set_ylim(-config.eval.half_width, config.eval.half_width)
        column[0].set_title(title(name), fontsize=9)
        column[1].set_xlabel("step", fontsize=8)
    grid[0, 0].set_ylabel("first coordinate", fontsize=8)
    grid[1, 0].set_ylabel("second coordinate", fontsize=8)
    finish(figure, path)


def stills(
    path: Path,
    chains: dict[str, np.ndarray],
    starts: np.ndarray,
    log_density: np.ndarray,
    config: Config,
) -> None:
    """Draws chains after few and many steps, a row a sampler, with their way.

    A chain beyond the map is drawn at its edge.
    """
    times = [0, *moments(10, config.eval.num_chain_steps, 4)]
    figure, grid = plt.subplots(
        len(chains), len(times), figsize=(1.9 * len(times), 1.9 * len(chains)), squeeze=False
    )
    for row, (name, positions) in zip(grid, chains.items(), strict=True):
        path_so_far = np.concatenate([starts[:, None], positions], axis=1)
        for axes, time in zip(row, times, strict=True):
            energy_map(axes, log_density, config.eval.half_width)
            # Only the last tenth of the way: all of it would hide the density.
            tail = path_so_far[:, time - time // 10 : time + 1]
            for i, way in enumerate(tail):
                axes.plot(*way.T, lw=0.5, color=shade(i))
                place = within(way[-1], config)
                axes.plot(*place, "o", ms=3.5, color=shade(i), mec="white", mew=0.4, clip_on=False)
        row[0].set_ylabel(title(name), fontsize=8)
    for axes, time in zip(grid[0], times, strict=True):
        axes.set_title(f"step {time}", fontsize=9)
    finish(figure, path)


def animation(
    path: Path,
    chains: dict[str, np.ndarray],
    starts: np.ndarray,
    log_density: np.ndarray,
    config: Config,
) -> None:
    """Draws all samplers, faster and faster, in an endless GIF; edges as in ``stills``."""
    num_frames = config.eval.num_frames
    if not num_frames:
        return
    figure, panels = squares(len(chains), side=2.2)
    colours = [shade(i) for i in range(len(starts))]
    dots = []
    for axes, name in zip(panels, chains, strict=True):
        energy_map(axes, log_density, config.eval.half_width)
        axes.set_title(title(name), fontsize=9)
        style = {"s": 34, "c": colours, "edgecolors": "white", "lw": 0.6, "clip_on": False}
        dots.append(axes.scatter(*starts.T, **style))
    clock = figure.text(0.01, 0.01, "", fontsize=8)
    figure.tight_layout()
    frame = frames(figure, [*dots, clock])
    images = []
    for time in (0, *moments(1, config.eval.num_chain_steps, num_frames)):
        for artist, positions in zip(dots, chains.values(), strict=True):
            artist.set_offsets(within(starts if time == 0 else positions[:, time - 1], config))
        clock.set_text(f"step {time}")
        images.append(frame())
    plt.close(figure)
    images[0].save(
        path, save_all=True, append_images=images[1:], duration=MILLISECONDS, loop=0, optimize=True
    )


def frames(figure: Any, artists: list[Any]) -> Callable[[], Image.Image]:
    """Returns a function that draws ``artists`` at their place; the background is drawn once."""
    for artist in artists:
        artist.set_animated(True)
    figure.set_dpi(80)
    figure.canvas.draw()
    background = figure.canvas.copy_from_bbox(figure.bbox)

    def frame() -> Image.Image:
        figure.canvas.restore_region(background)
        for artist in artists:
            figure.draw_artist(artist)
        image = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())[..., :3].copy())
        # The usual palette loses rare colours, which are those of the chains.
        return image.quantize(256, Image.Quantize.FASTOCTREE)

    return frame


def within(positions: np.ndarray, config: Config) -> np.ndarray:
    """Returns ``positions``, moved to the edge of the map if they lie beyond."""
    return np.clip(positions, -config.eval.half_width, config.eval.half_width)


def moments(first: int, last: int, num: int) -> list[int]:
    """Returns at most ``num`` steps from ``first`` to ``last``, evenly spaced in logarithm."""
    return sorted({round(step) for step in np.geomspace(first, last, num)})


def title(name: str) -> str:
    """Returns a sampler's name for pictures and tables."""
    return SAMPLERS[name].title


def shade(chain: int) -> Any:
    """Returns a chain's colour, readable on red and blue."""
    return plt.get_cmap("tab20")(2 * chain % 20 + (chain >= 10))
