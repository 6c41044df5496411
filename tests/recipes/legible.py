"""Finds texts of a figure that cannot be read."""

from itertools import combinations

from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

PIXEL = 1.0
"""Texts may touch by the rounding of their places."""


def faults(figure: Figure) -> list[str]:
    """Returns the texts that overlap or leave the figure, and the legends that cover a panel."""
    figure.draw_without_rendering()
    texts, legends = [], [(legend, "legend") for legend in figure.legends]
    for axes in (axes for axes in figure.axes if axes.get_visible()):
        texts += [(axes.title, axes.get_title())]
        legends += [(axes.get_legend(), "legend")] if axes.get_legend() else []
        for axis, span in ((axes.xaxis, axes.bbox.intervalx), (axes.yaxis, axes.bbox.intervaly)):
            texts += [(axis.label, axis.get_label_text()), *ticks(axis, *span)]
    if figure.get_suptitle():
        texts.append((figure._suptitle, figure.get_suptitle()))
    texts = [(text, said) for text, said in texts if said and text.get_visible()]
    boxes = [(shrunk(thing), said) for thing, said in texts + legends]
    found = [
        f"{one!r} over {other!r}"
        for (box, one), (its, other) in combinations(boxes, 2)
        if box.overlaps(its)
    ]
    whole = figure.bbox.padded(PIXEL)
    found += [
        f"{said!r} leaves the figure"
        for box, said in boxes
        if box.x0 < whole.x0 or box.x1 > whole.x1 or box.y0 < whole.y0 or box.y1 > whole.y1
    ]
    covering = (shrunk(legend) for legend, _ in legends)
    panels = [axes.bbox for axes in figure.axes if axes.get_visible()]
    return found + ["a legend over a panel" for box in covering if box.count_overlaps(panels)]


def ticks(axis, low, high):
    """Labels of the ticks between two pixels of an axis."""
    labels = [label for label in axis.get_ticklabels(which="both") if label.get_text()]
    centres = [label.get_transform().transform(label.get_position()) for label in labels]
    place = 0 if axis.axis_name == "x" else 1
    return [
        (label, label.get_text())
        for label, centre in zip(labels, centres, strict=True)
        if low - PIXEL <= centre[place] <= high + PIXEL
    ]


def shrunk(thing) -> Bbox:
    return thing.get_window_extent().padded(-PIXEL)
