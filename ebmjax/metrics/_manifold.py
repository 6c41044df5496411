"""Precision, recall, density and coverage of generated images.

Host code in NumPy, float64.
"""

from typing import NamedTuple

import numpy as np
from jax.typing import ArrayLike

from ebmjax._checks import check_at_least
from ebmjax.metrics._kernel_distance import ROWS, check_sides, squared_distances


class ManifoldScores(NamedTuple):
    """Overlap of two sets of features, measured by neighbourhoods.

    Attributes:
      precision: the fraction of generated images within the reference's balls.
      recall: the fraction of reference images within the generated images' balls.
      density: number of reference balls that hold a generated image, divided by the number expected
        for equal distributions. Its expectation is then 1, but it may exceed 1.
      coverage: the fraction of the reference's balls that hold a generated image.
    """

    precision: float
    recall: float
    density: float
    coverage: float


def manifold_scores(
    generated_features: ArrayLike, reference_features: ArrayLike, *, num_neighbours: int = 5
) -> ManifoldScores:
    r"""Returns precision, recall, density and coverage by neighbours. Host code, float64.

    The ball :math:`B(x)` of an image reaches to the ``num_neighbours``-th nearest *other* image of
    its set, included. With n generated images y and m of the reference x

    .. math::
        \mathrm{precision} = \frac1n \sum_j \Big[y_j \in \bigcup_i B(x_i)\Big], \quad
        \mathrm{recall} = \frac1m \sum_i \Big[x_i \in \bigcup_j B(y_j)\Big],

        \mathrm{density} = \frac{1}{k n} \sum_{i, j} [y_j \in B(x_i)], \quad
        \mathrm{coverage} = \frac1m \sum_i \Big[\exists j: y_j \in B(x_i)\Big].

    All four depend on n, m and k: compare at equal ones. Precision and recall trust outliers, whose
    balls are large. For two samples of one distribution without atoms, the expected density is 1
    and the expected coverage about :math:`1 - 2^{-k}` if n = m.

    Images at a ball's edge (copies, for example) count as inside: radii are larger by the bound of
    rounding. Time grows with (n^2 + m^2 + n m) d.

    Args:
      generated_features: (n, d), n > num_neighbours.
      reference_features: (m, d), m > num_neighbours, of the same extractor.
      num_neighbours: k; 5 in the paper of density and coverage, 3 in that of precision and recall.

    Source: Kynkaanniemi et al. 2019, arXiv:1904.06991, equations 1 and 2; Naeem et al. 2020,
    arXiv:2002.09797, section 3, whose code leaves out images at a ball's edge.

    Example:
      >>> reference = [[0.0], [1.0], [10.0], [11.0]]  # two modes, one of which is generated
      >>> scores = manifold_scores([[0.0], [1.0]], reference, num_neighbours=1)
      >>> scores.precision, scores.recall, scores.density, scores.coverage
      (1.0, 0.5, 2.0, 0.5)
    """
    check_at_least("num_neighbours", num_neighbours, 1)
    generated, reference = check_sides(
        generated_features=generated_features, reference_features=reference_features
    )
    if min(len(generated), len(reference)) <= num_neighbours:
        raise ValueError(
            f"both sides must have more rows than num_neighbours={num_neighbours}, got "
            f"{len(generated)} and {len(reference)}. Give more images, or a lower number."
        )
    # Rounding of distances grows with the norms, which an offset would make large.
    centre = reference.mean(0)
    generated, reference = generated - centre, reference - centre
    generated_radii = _squared_radii(generated, num_neighbours)
    reference_radii = _squared_radii(reference, num_neighbours)
    num_balls = np.empty(len(generated), int)
    is_recalled, is_covered = np.zeros((2, len(reference)), bool)
    for start in range(0, len(generated), ROWS):
        block = slice(start, start + ROWS)
        distances = squared_distances(generated[block], reference)
        is_in_reference = distances <= reference_radii
        num_balls[block] = is_in_reference.sum(1)
        is_covered |= is_in_reference.any(0)
        is_recalled |= (distances <= generated_radii[block, None]).any(0)
    return ManifoldScores(
        precision=float(np.mean(num_balls > 0)),
        recall=float(np.mean(is_recalled)),
        density=float(np.mean(num_balls) / num_neighbours),
        coverage=float(np.mean(is_covered)),
    )


def _squared_radii(rows: np.ndarray, num_neighbours: int) -> np.ndarray:
    """Returns squared distances (n,) to the ``num_neighbours``-th nearest other row, plus rounding.

    The addition is the rounding of a difference of two squared distances. A squared distance of
    centred rows is accurate within ``(d + 4) eps / 2 (|x| + |y|)^2``. If y lies at x's radius r,
    then |y| is at most |x| + r, and this at most ``3 (d + 4) eps (|x|^2 + r^2)``.
    """
    radii = np.empty(len(rows))
    for start in range(0, len(rows), ROWS):
        block = slice(start, start + ROWS)
        distances = squared_distances(rows[block], rows)
        # The nearest row is the row itself.
        radii[block] = np.partition(distances, num_neighbours, axis=1)[:, num_neighbours]
    slack = 6 * (rows.shape[1] + 4) * np.finfo(np.float64).eps
    return radii + slack * (np.sum(rows**2, 1) + radii)
