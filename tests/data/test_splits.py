"""Splits are known by their usual words, and never read as something else."""

import numpy as np
import pytest
from PIL import Image

from ebmjax.data import MissingSplitError, load_images

LEVELS = {"train": 100, "test": 200, "validation": 150, "other": 80}


def write_folder(place, **levels):
    """Three images of one level in each folder."""
    for name, level in levels.items():
        (place / name.replace("__", "/")).mkdir(parents=True, exist_ok=True)
        for index in range(3):
            image = Image.fromarray(np.full((8, 8), level, np.uint8))
            image.save(place / name.replace("__", "/") / f"{index}.png")
    return place


def level_of(source, place, split, **options):
    found = load_images(source, split, path=place, **options)
    assert found.num_found == 3
    assert found.class_names == ()
    return int(found.data.images.max())


@pytest.mark.parametrize(
    ("train", "test"),
    [
        ("training_set", "testing"),
        ("train2017", "test2017"),
        ("train images", "Test-Images"),
    ],
)
def test_folders_of_splits_are_known_by_their_words(train, test, tmp_path):
    place = write_folder(tmp_path, **{train: 100, test: 200})
    assert level_of("folder", place, "train") == 100
    assert level_of("folder", place, "test") == 200
    classes = write_folder(tmp_path / "classes" / "train", **{train: 100, test: 200})
    assert load_images("folder", "train", path=classes.parent).num_found == 6


@pytest.mark.parametrize("word", ["val", "Valid", "VALIDATION", "dev"])
def test_the_words_of_validation_are_one_split(word, tmp_path):
    place = write_folder(tmp_path, **{"train": 100, word: 150})
    for split in (word, "val", "validation"):
        assert level_of("folder", place, split) == 150
    with pytest.raises(MissingSplitError, match="and no 'test'") as caught:
        load_images("folder", "test", path=place)
    assert caught.value.others == [word]


@pytest.mark.parametrize("others", [("val",), ("Eval",), ("Test",), ("testing", "dev")])
def test_a_folder_of_test_images_alone_has_no_training_images(others, tmp_path):
    place = write_folder(tmp_path, **dict.fromkeys(others, 50))
    with pytest.raises(MissingSplitError, match="and no 'train'"):
        load_images("folder", "train", path=place)


def test_the_split_that_judges_is_never_trained_on(tmp_path):
    place = write_folder(tmp_path, train=100, hard=200)
    with pytest.raises(ValueError, match=r"the splits \['train'\] beside \['hard'\]"):
        load_images("folder", "train", path=place)
    assert level_of("folder", place, "train", test_split="hard") == 100
    assert level_of("folder", place, "hard", test_split="hard") == 200
    alone = write_folder(tmp_path / "alone", hard=200, easy=100)
    with pytest.raises(ValueError, match=r"the splits \['hard'\] beside \['easy'\]"):
        load_images("folder", "train", path=alone, test_split="hard")


@pytest.mark.parametrize(
    ("folders", "expected"),
    [
        ({"test": 200, "cats": 100}, r"splits \['test'\] beside \['cats'\].*into a folder 'tr"),
        ({"test": 200, "cats__deep": 100}, r"splits \['test'\] beside \['cats'\]"),
        ({"train": 100, "": 50}, r"splits \['train'\] beside \['0.png'"),
        ({"train": 100, "Training": 200}, r"one split 'train', got \['Training', 'train'\]"),
    ],
)
def test_splits_are_not_mixed_with_classes_images_or_each_other(folders, expected, tmp_path):
    place = write_folder(tmp_path / "set", **folders)
    with pytest.raises(ValueError, match=expected):
        load_images("folder", "train", path=place)


def test_a_class_may_have_the_word_of_a_split_in_its_name(tmp_path):
    place = write_folder(tmp_path, **{"test tube": 100, "developer": 200, "trainer": 50})
    assert len(load_images("folder", "train", path=place).class_names) == 3


def images(level):
    return np.full((3, 8, 8, 1), level, np.uint8)


@pytest.mark.parametrize(
    ("train", "test"),
    [
        ("Images", "TEST_IMAGES"),
        ("X_train", "test_x"),
        ("training_images", "images_testing"),
    ],
)
def test_arrays_of_splits_are_known_by_their_words(train, test, tmp_path):
    np.savez(tmp_path / "a.npz", **{train: images(100), test: images(200)})
    for split, level in (("train", 100), ("test", 200)):
        assert level_of("npz", tmp_path / "a.npz", split) == level


@pytest.mark.parametrize("label", ["labels", "Train_Labels", "y_training", "y_train"])
def test_labels_belong_to_their_split_in_any_form(label, tmp_path):
    np.savez(tmp_path / "a.npz", **{"x_train": images(100), label: [[0], [1], [1]]})
    assert load_images("npz", "train", path=tmp_path / "a.npz").num_classes == 2


def test_arrays_that_say_the_same_twice_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", images=images(100), train_images=images(200))
    with pytest.raises(ValueError, match=r"images of train once, got \['images', 'train_images'\]"):
        load_images("npz", "train", path=tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", images=images(100), labels=[0, 1, 1], y_train=[1, 0, 0])
    with pytest.raises(ValueError, match=r"labels of train once, got \['labels', 'y_train'\]"):
        load_images("npz", "train", path=tmp_path / "a.npz")


def test_arrays_that_nobody_reads_are_counted(tmp_path):
    np.savez(tmp_path / "a.npz", images=images(100), label=[0, 1, 1], valid_images=images(9))
    found = load_images("npz", "train", path=tmp_path / "a.npz")
    assert found.notes == ("arrays or files not read: 1 (label)",)
    (tmp_path / "folder").mkdir()
    for name in ("images.npy", "._images.npy"):
        np.save(tmp_path / "folder" / name, images(100))
    (tmp_path / "folder" / "images.txt").write_text("about")
    found = load_images("npz", "train", path=tmp_path / "folder")
    assert found.notes == ("arrays or files not read: 2 (._images.npy, images.txt)",)


def test_splits_of_hugging_face_are_known_by_their_words(tmp_path):
    datasets = pytest.importorskip("datasets")
    kinds = datasets.Features({"image": datasets.Image()})

    def part(level, split=None):
        rows = {"image": [Image.fromarray(np.full((8, 8), level, np.uint8))] * 3}
        return datasets.Dataset.from_dict(rows, features=kinds, split=split)

    parts = datasets.DatasetDict({"Training": part(100), "Valid": part(150)})
    parts.save_to_disk(str(tmp_path / "set"))
    assert level_of("huggingface", tmp_path / "set", "train") == 100
    assert level_of("huggingface", tmp_path / "set", "validation") == 150
    with pytest.raises(MissingSplitError, match=r"has the splits \['Training', 'Valid'\]"):
        load_images("huggingface", "test", path=tmp_path / "set")
    # One that was saved alone is what it says, and never trained on as the test split.
    part(100).save_to_disk(str(tmp_path / "alone"))
    assert level_of("huggingface", tmp_path / "alone", "train") == 100
    part(100, "test").save_to_disk(str(tmp_path / "test"))
    assert level_of("huggingface", tmp_path / "test", "test") == 100
    with pytest.raises(MissingSplitError, match=r"has the splits \['test'\], and no 'train'"):
        load_images("huggingface", "train", path=tmp_path / "test")
