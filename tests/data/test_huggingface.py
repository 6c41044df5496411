"""Columns of a Hugging Face data set are chosen by name; what is missing is named by its row."""

import json
import os

import numpy as np
import pytest
from picture_sources import encoded, write_rows
from PIL import Image

from ebmjax.data import load_images

PIXELS = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3), np.uint8)
IMAGES = [Image.fromarray(pixels) for pixels in PIXELS]
COARSE, FINE = [0, 0, 1, 1], [0, 1, 2, 3]


def both(datasets):
    return {
        "coarse_label": datasets.ClassLabel(names=["A", "B"]),
        "fine_label": datasets.ClassLabel(names=["a", "b", "c", "d"]),
    }


def load(place, **options):
    return load_images("huggingface", "train", path=place, **options)


def test_of_two_columns_of_labels_one_is_chosen_by_name(tmp_path):
    columns = {"image": IMAGES, "coarse_label": COARSE, "fine_label": FINE}
    place = write_rows(tmp_path / "set", columns, both)
    message = r"label_column must be one of \['coarse_label', 'fine_label'\] .* got None"
    with pytest.raises(ValueError, match=message):
        load(place)
    for name, classes, other in (
        ("coarse_label", ("A", "B"), "fine_label"),
        ("fine_label", ("a", "b", "c", "d"), "coarse_label"),
    ):
        found = load(place, label_column=name)
        assert found.class_names == classes
        assert found.notes == (f"columns not read: 1 ({other})",)
        shown = {
            pixels.tobytes(): label for pixels, label in zip(PIXELS, columns[name], strict=True)
        }
        for image, label in zip(found.data.images, found.data.labels, strict=True):
            assert shown[image.tobytes()] == label
    with pytest.raises(ValueError, match=r"got 'kind'\. Its columns are {'image': 'Image', 'coars"):
        load(place, label_column="kind")


@pytest.mark.parametrize(
    ("column", "values", "feature", "expected"),
    [
        ("label", [0, None, 1, 1], lambda d: d.Value("int64"), "row 1 of .* has no 'label'"),
        ("kind", [0, 1, None, None], lambda d: d.ClassLabel(names=["a", "b"]), r"row 2 .*\(2 such"),
        ("kind", [0, 1, -1, 1], lambda d: d.ClassLabel(names=["a", "b"]), "got -1 for row 2 of"),
    ],
)
def test_labels_that_are_missing_are_named_by_row(column, values, feature, expected, tmp_path):
    columns = {"image": IMAGES, column: values}
    place = write_rows(tmp_path / "set", columns, lambda d: {column: feature(d)})
    with pytest.raises(ValueError, match=expected):
        load(place)


@pytest.mark.parametrize(
    ("values", "feature"),
    [
        ([[0], [1], [0, 1], []], lambda d: d.Sequence(d.ClassLabel(names=["a", "b"]))),
        ([{"kind": 0}] * 4, lambda d: {"kind": d.ClassLabel(names=["a", "b"])}),
        (["a", "b", "a", "b"], lambda d: d.Value("string")),
        ([0.5] * 4, lambda d: d.Value("float32")),
    ],
)
def test_what_is_no_class_is_no_label(values, feature, tmp_path):
    columns = {"image": IMAGES, "label": values}
    place = write_rows(tmp_path / "set", columns, lambda d: {"label": feature(d)})
    found = load(place)
    assert found.num_classes is None
    assert found.notes == ("columns not read: 1 (label)",)
    with pytest.raises(ValueError, match=r"label_column must be one of \[\] .*class_encode_column"):
        load(place, label_column="label")


def test_images_are_bytes_inside_the_set(tmp_path, monkeypatch):
    file = tmp_path / "outside.png"
    file.write_bytes(encoded(PIXELS[0]))
    datasets = pytest.importorskip("datasets")
    kinds = datasets.Features({"image": datasets.Image(decode=False)})
    rows = datasets.Dataset.from_dict({"image": [{"bytes": None, "path": str(file)}]}, kinds)
    rows = rows.cast_column("image", datasets.features.Image(decode=False))
    # As an older version saved it, which left files where they are.
    monkeypatch.setattr("datasets.arrow_writer.embed_table_storage", lambda table, *_, **__: table)
    rows.save_to_disk(str(tmp_path / "set"))
    with pytest.raises(ValueError, match=r"row 0 of .* names a file instead of holding its image"):
        load(tmp_path / "set")


@pytest.mark.parametrize("damage", ["state.json", "arrow"])
def test_a_damaged_set_is_named(damage, tmp_path):
    place = write_rows(tmp_path / "set", {"image": IMAGES})
    (file,) = place.glob(f"*{damage}")
    file.write_bytes(b"{}")
    with pytest.raises(ValueError, match=r"set cannot be read as a data set that save_to_disk"):
        load(place)


@pytest.mark.parametrize("name", ["pipe.arrow", "{tmp_path}/pipe.arrow", "../pipe.arrow"])
def test_a_pipe_is_not_waited_for(name, tmp_path):
    place = write_rows(tmp_path / "set", {"image": IMAGES})
    os.mkfifo((tmp_path if "/" in name else place) / "pipe.arrow")
    state = json.loads((place / "state.json").read_text())
    state["_data_files"] = [{"filename": name.format(tmp_path=tmp_path)}]
    (place / "state.json").write_text(json.dumps(state))
    with pytest.raises(ValueError, match=r"pipe\.arrow is no regular|names files outside of its"):
        load(place)
