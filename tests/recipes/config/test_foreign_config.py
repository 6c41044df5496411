"""A config.json of another version, edited, damaged or of wrong types: one line, no traceback."""

import json
import math

import numpy as np
import pytest
from experiment_runs import command, contents, readers
from linear_family import linear

from ebmjax import training
from ebmjax.recipes.config import declare, families
from ebmjax.recipes.config.errors import ConfigError, WorkdirError, flatten
from ebmjax.recipes.folder import run_folder

ANOTHER = "It was edited, or the run was made by another version of ebmjax"
NEVER = [["text", 3], [[3]], [{}], [None], {"text": 3}, {}]
"""Values that no field has."""
WRONG = [None, True, 3, -3, 10**400, 0.5, math.nan, math.inf, "", "text", "3", [], [3], *NEVER]
"""Values of every type that JSON has; each is wrong for most fields."""


def configuration(family, **changes):
    config = declare.defaults(families.all_fields(family))
    config.update_from_flattened_dict(changes)
    return run_folder.as_json(config)


def written(folder, saved):
    (folder / "config.json").write_text(saved if isinstance(saved, str) else json.dumps(saved))
    return folder


def with_value(saved, name, value):
    """A copy of ``saved`` in which the field ``name``, known or not, has ``value``."""
    *path, last = name.split(".")
    changed = json.loads(json.dumps(saved))
    place = changed
    for part in path:
        place = place.setdefault(part, {})
    place[last] = value
    return changed


def refuses(one, name, value):
    try:
        found = declare.from_json(one, name, value)
    except ConfigError:
        return True
    kind = tuple if isinstance(one.default, tuple) else one.values.kind
    assert found is None or isinstance(found, tuple) == (kind is tuple), (name, value)
    assert found == (tuple(value) if isinstance(value, list) else value)
    return False


@pytest.mark.parametrize("family", sorted(families.FAMILIES))
def test_every_field_of_a_wrong_type_is_named_in_one_line(family, tmp_path):
    saved = configuration(family)
    fields = {k: one for k, one in families.all_fields(family).items() if k in flatten(saved)}
    for name, one in fields.items():
        wrong = [value for value in WRONG if refuses(one, name, value)]
        assert all(any(value is other for other in wrong) for value in NEVER), name
        assert len(wrong) >= len(WRONG) // 2, name
        empty = wrong[-1] if not name.endswith(".every") else None  # as if it were not there
        for value in (wrong[0], empty, {"text": 3}):
            written(tmp_path, with_value(saved, name, value))
            with pytest.raises(WorkdirError) as caught:
                run_folder.config_of(tmp_path)
            message = str(caught.value)
            assert message.startswith(f"{tmp_path}/config.json: config."), message
            assert f"config.{name.removesuffix('.every')}" in message
            assert ANOTHER in message
            assert "\n" not in message
            assert len(message) < 900


@pytest.mark.parametrize("family", sorted(families.FAMILIES))
def test_every_field_that_is_missing_and_every_one_too_many_is_named(family, tmp_path):
    saved = configuration(family)
    assert run_folder.as_json(run_folder.config_of(written(tmp_path, saved))) == saved
    for name in [*flatten(saved), *(key for key, part in saved.items() if isinstance(part, dict))]:
        *path, last = name.split(".")
        if last == "every":  # without it, an evaluator is off
            continue
        changed = json.loads(json.dumps(saved))
        place = changed
        for part in path:
            place = place[part]
        del place[last]
        with pytest.raises(WorkdirError, match=rf"config\.json: config\.{name}.*{ANOTHER}"):
            run_folder.config_of(written(tmp_path, changed))
    more = with_value(saved, "train.of_tomorrow", 3)
    with pytest.raises(WorkdirError, match=rf"config\.train\.of_tomorrow is no field.*{ANOTHER}"):
        run_folder.config_of(written(tmp_path, more))


BROKEN = {
    "a list": ("[1, 2]", "it holds no object, but a list"),
    "a number": ("3", "it holds no object, but a int"),
    "null": ("null", "it holds no object, but a NoneType"),
    "text": ('"joint"', "it holds no object, but a str"),
    "nothing": ("", "Expecting value"),
    "cut short": ('{"seed": 0', "Expecting"),
    "lists in lists": ("[" * 5000 + "]" * 5000, "(nested|no object)"),
    "objects in objects": ('{"a":' * 5000 + "1" + "}" * 5000, "nested more than 32 levels deep"),
    "levels enough": ('{"a":' * 40 + "1" + "}" * 40, "nested more than 32 levels deep"),
    "a huge number": ('{"family": "linear", "seed": ' + "9" * 5000 + "}", "(digits|integer)"),
    "a name twice": ('{"family": "linear", "seed": 0, "seed": 1}', "it has 'seed' twice"),
    "no family": ("{}", "config.family must be one of"),
    "a family of lists": ('{"family": ["joint"]}', "config.family must be one of"),
    "a family of tomorrow": ('{"family": "diffusion"}', "config.family must be one of"),
    "a path for a family": ('{"family": "../../evil.py"}', "config.family must be one of"),
    "sections that are none": ('{"family": "joint", "data": 3}', "config.data is no field of the"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_is_no_configuration_is_one_line_for_every_reader(
    name, tmp_path, monkeypatch, capsys
):
    folder = tmp_path / "run"
    folder.mkdir()
    text, expected = BROKEN[name]
    written(folder, text)
    before = contents(tmp_path)
    for call in readers(folder, linear(), tmp_path / "new"):
        with pytest.raises((WorkdirError, ValueError), match=expected) as caught:
            call()
        assert f"{folder}/config.json" in str(caught.value)
        assert "\n" not in str(caught.value)
    for used, out in (("sample", "s.png"), ("export", "p.npz")):
        with pytest.raises(SystemExit) as ended:
            command(monkeypatch, used, folder, tmp_path / out)
        assert ended.value.code == 2
        assert capsys.readouterr().err.startswith(f"error: {folder}/config.json")
    assert contents(tmp_path) == before


def test_a_file_that_is_huge_is_not_read(tmp_path):
    with (tmp_path / "config.json").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(WorkdirError, match=r"it has 1,099,511,627,776 bytes, more than"):
        run_folder.config_of(tmp_path)


def saved_run(folder, **changes):
    """A folder whose checkpoint and best state say what the configuration was."""
    config = linear(**changes)
    written(folder, run_folder.as_json(config))
    meta = {"total_steps": 10, "is_diverged": False}
    for name, step in (("checkpoints", 4), ("checkpoints", 8), ("best", 4)):
        about = {"config": run_folder.as_json(config)}
        with training.Checkpoints(folder / name, about=about) as checkpoints:
            checkpoints.save(step, {"weight": np.ones(2)}, meta)
    return config


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("mesh.num_shards", 1, "mesh.num_shards was 2 and is now 1"),
        ("optimizer.learning_rate", 0.5, "optimizer.learning_rate was 0.04 and is now 0.5"),
        ("seed", 1, "seed was 0 and is now 1"),
        ("model.hidden", [3, 3], r"model.hidden was \[1\] and is now \[3, 3\]"),
    ],
)
def test_a_configuration_that_was_edited_after_the_run_is_noticed(field, value, expected, tmp_path):
    config = saved_run(tmp_path)
    assert run_folder.as_json(run_folder.config_of(tmp_path)) == run_folder.as_json(config)
    edited = with_value(run_folder.as_json(config), field, value)
    written(tmp_path, edited)
    kind = tuple(value) if isinstance(value, list) else value
    # The second goes on with the edit.
    for call in readers(tmp_path, linear(**{field: kind}), tmp_path.parent / "new"):
        with pytest.raises((WorkdirError, ValueError), match=rf"changed since step 4.*{expected}"):
            call()


def test_what_may_differ_is_no_edit(tmp_path):
    config = saved_run(tmp_path)
    changed = run_folder.as_json(config)
    for name, value in (
        ("data.path", "/moved"),
        ("data.placement", "disk"),
        ("evals.every_epochs", 1.0),
        ("evals.use_test_split", True),
    ):
        changed = with_value(changed, name, value)
    run_folder.config_of(written(tmp_path, changed))


def test_a_run_whose_checkpoints_do_not_name_their_configuration_is_of_another_version(tmp_path):
    written(tmp_path, run_folder.as_json(linear()))
    with training.Checkpoints(tmp_path / "checkpoints") as checkpoints:
        checkpoints.save(4, {"weight": np.ones(2)}, {})
    with pytest.raises(
        WorkdirError, match=r"checkpoints/4 does not name its configuration.*another"
    ):
        run_folder.config_of(tmp_path)


def test_a_checkpoint_of_endless_steps_is_damaged(tmp_path):
    config = linear()
    meta = {"total_steps": float("inf"), "is_diverged": False}
    with training.Checkpoints(tmp_path / "checkpoints") as checkpoints:
        checkpoints.save(4, {"weight": np.ones(2)}, meta)
    with pytest.raises(WorkdirError, match=r"None of the checkpoints \[4\] .* can be read back"):
        run_folder.find_saved(tmp_path, config)
