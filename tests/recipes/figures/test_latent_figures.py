"""experiments/latent_figures.py on a study of random numbers: every figure is drawn."""

import json

import pytest
from latent_study_folder import make
from matplotlib.figure import Figure

from ebmjax.recipes.folder.run_folder import as_json
from experiments.configs import jem_digits
from experiments.figures import latent
from experiments.figures import latent_runs as runs
from experiments.figures import latent_sweeps as sweeps
from experiments.figures.latent_data import Absent, gather


@pytest.mark.slow
def test_every_figure_of_the_whole_study_is_drawn(tmp_path, monkeypatch, capsys):
    """Does not render them: test_latent_pictures.py looks at what they show."""
    make("", tmp_path)
    every = set(latent.figures(gather(tmp_path)))
    of_one = {name for name in every if not name.endswith("_frozen_prior")}
    of_other = {name.removesuffix("_frozen_prior") for name in every - of_one}
    assert of_other == {name.removesuffix("_tempered") for name in of_one if "_tempered" in name}
    monkeypatch.setattr(Figure, "savefig", lambda figure, path: path.touch())
    monkeypatch.setattr("sys.argv", ["latent_figures.py", f"--folder={tmp_path}"])
    # The pictures of the other estimator take the same code and twice the time.
    monkeypatch.setattr(sweeps, "ESTIMATORS", {"tempered": "tempered"})
    latent.main()
    said = capsys.readouterr().out
    assert "no fig" not in said
    assert f"{len(of_one)} figures in {tmp_path / 'figures'}" in said
    drawn = {path.stem for path in (tmp_path / "figures").glob("*.png")}
    assert drawn == of_one
    shown = {int(name[3:5]) for name in drawn if name != "equal_time"}
    assert shown == {1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 14, 15, 20}
    table = (tmp_path / "figures" / "quadratic_fits.md").read_text().splitlines()
    assert len(table) == 4 + 3 * 3 * 3  # scores, variances, regimes


def test_figures_without_rows_are_named_and_left_out(tmp_path, monkeypatch, capsys):
    make(":quick", tmp_path)
    every = latent.figures

    def few(rows):
        return {name: make for name, make in every(rows).items() if name[:5] in ("fig04", "fig10")}

    monkeypatch.setattr(latent, "figures", few)
    (tmp_path / "tempered_p=3.0" / "seed0").mkdir(parents=True)
    latent.draw(tmp_path)
    said = capsys.readouterr().out
    assert "no fig04_variance_against_exponent_frozen_prior: it takes two rows of frozen_p" in said
    assert "left out, for it has no evaluation:" in said
    assert "tempered_p=3.0/seed0." in said
    assert (tmp_path / "figures" / "fig10_kid_rbf_collated_tempered.png").exists()
    assert not (tmp_path / "figures" / "fig10_kid_rbf_collated_frozen_prior.png").exists()


def test_runs_that_compared_no_images_have_no_scores(tmp_path):
    make("", tmp_path)
    for path in tmp_path.glob("*/seed0/evaluation.json"):
        report = json.loads(path.read_text())
        del report["generation"]
        path.write_text(json.dumps(report))
    found = gather(tmp_path)
    for draw in (sweeps.against_variance, sweeps.overlaid):
        with pytest.raises(Absent, match="nothing was generated"):
            draw(found, "tempered", tmp_path / "none.png", "fid")
    with pytest.raises(Absent, match="nothing was generated"):
        sweeps.against_time(found, tmp_path / "none.png")
    with pytest.raises(Absent, match="a row with a finite KID_inf"):
        runs.samples_by_score(found, tmp_path / "none.png")
    assert not (tmp_path / "none.png").exists()


def test_a_folder_without_runs_is_refused(tmp_path, monkeypatch):
    other = tmp_path / "row" / "seed0"
    other.mkdir(parents=True)
    (other / "config.json").write_text(json.dumps(as_json(jem_digits.get_config())))
    (other / "evaluation.json").write_text("{}")
    monkeypatch.setattr("sys.argv", ["latent_figures.py", f"--folder={tmp_path}"])
    with pytest.raises(SystemExit, match="holds no finished run of a latent EBM"):
        latent.main()
