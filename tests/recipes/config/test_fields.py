"""Every declared field: text, range, default, and a refusal where it has no effect."""

import re
import subprocess
import sys

import numpy as np
import pytest
from experiment_runs import REPOSITORY

from ebmjax import _ranges as ranges
from ebmjax.recipes.config import command_line, declare, families, pages
from ebmjax.recipes.config.errors import ConfigError

FAMILIES = ("energy", "joint", "latent")
FIELDS = [(family, name) for family in FAMILIES for name in families.all_fields(family)]
CONDITIONAL = [(family, name) for family, name in FIELDS if families.all_fields(family)[name].when]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_field_has_a_text_and_a_default_within_its_range(family):
    fields = families.all_fields(family)
    for name, one in fields.items():
        assert one.text, name
        assert len(one.text) < 90, name
        assert one.values.refusal(one.default) is None, name
        assert one.values.may_be_none or one.default is not None, name
        for value in one.values.examples:
            assert one.values.refusal(value) is None, (name, value)
    families.check(declare.defaults(fields))


def test_a_name_has_one_range_in_all_families():
    """But where a family has fewer choices, or no value at all, or a finer bound."""
    kinds = {}
    for family, name in FIELDS:
        kinds.setdefault(name, {}).setdefault(families.all_fields(family)[name].values.kind, family)
    assert {name: found for name, found in kinds.items() if len(found) > 1} == {}


def valid_values(one):
    """Other values of a field than its default."""
    is_tuple = isinstance(one.default, tuple)
    if one.default:
        yield from [None] * one.values.may_be_none + [()] * (is_tuple and one.values.may_be_empty)
    for value in one.values.examples:
        entry = (value,) if is_tuple else value
        if entry != one.default:
            yield entry


def where_it_has_no_effect(fields, name):
    """Configurations in which the conditions of a field do not hold, one field changed each."""
    plain = declare.defaults(fields)
    if declare.no_effect(fields, plain, name):
        yield plain
        return
    for other, one in fields.items():
        for value in valid_values(one) if other != name else ():
            config = declare.defaults(fields)
            config.update_from_flattened_dict({other: value})
            if declare.no_effect(fields, config, name):
                yield config
                return


@pytest.mark.parametrize(("family", "name"), CONDITIONAL)
def test_a_field_without_effect_is_refused(family, name):
    fields = families.all_fields(family)
    (config,) = where_it_has_no_effect(fields, name)
    *_, value = valid_values(fields[name])
    config.update_from_flattened_dict({name: value})
    with pytest.raises(ConfigError) as caught:
        declare.check(fields, config, typed={name})
    message = str(caught.value)
    assert message.startswith(f"config.{name}={value} has no effect here: it needs ")
    assert message.endswith(f"--config.{name}={fields[name].default}.")
    waits = all(when.may_preset for when in fields[name].when if not when.holds(config))
    if waits:  # in a file
        declare.check(fields, config)


DIGITS = {"latent": "thermo", "joint": "jem", "energy": "igebm"}
IGNORED = [
    ("latent", "loss.kl_weight=2.0"),
    ("latent:vanilla", "loss.kl_weight=2.0"),
    ("latent:frozen_prior", "loss.kl_weight=2.0"),
    ("latent", "loss.pilot_epochs=3"),
    ("latent", "loss.pilot_intervals=10"),
    ("latent:vanilla", "sampler.warm_start=True"),
    ("latent:vanilla", "loss.schedule=adaptive"),
    ("latent:frozen_prior", "optimizer.prior.learning_rate=1e-3"),
    ("latent", "optimizer.generator.final_learning_rate=1e-4 optimizer.decay_per_epoch=1.0"),
    ("joint", "sampler.buffer.replacement=softmax"),
    ("joint", "loss.smoothing_rate=0.5"),
    ("joint", "optimizer.momentum=0.5"),
    ("joint", "sampler.mala.step_size=0.2"),
    ("joint:softmax", "sampler.num_steps=5"),
    ("energy", "sampler.mala.step_size=0.2"),
    ("energy", "sampler.augmentation.min_area=0.5"),
    ("energy:short_run", "sampler.buffer.reinit_prob=0.5"),
    ("energy", "sampler.allow_decoupled=True"),
    ("joint", "sampler.allow_decoupled=True"),
    ("joint:softmax", "eval.samples.num_images=30"),
    ("joint:softmax", "eval.inception_weights=weights.npz"),
]


@pytest.mark.parametrize(("config", "argument"), IGNORED)
def test_what_was_accepted_and_ignored_is_refused(config, argument, capsys):
    family, colon, variant = config.partition(":")
    file = f"configs/{DIGITS[family]}_digits.py{colon}{variant}"
    with pytest.raises(SystemExit) as ended:
        command_line.read(file, [f"--config.{one}" for one in argument.split()])
    assert ended.value.code == 2
    name = argument.partition("=")[0]
    assert capsys.readouterr().err.startswith(f"error: config.{name}=")


def test_decay_epochs_are_refused_with_cosine(capsys):
    arguments = ["--config.optimizer.schedule=cosine", "--config.optimizer.decay_epochs=(1.0,)"]
    with pytest.raises(SystemExit):
        command_line.read("configs/jem_digits.py", arguments)
    assert "decay_epochs=(1.0,) has no effect here: it needs config.optimizer.schedule=steps" in (
        capsys.readouterr().err
    )


MISTAKES = [
    ("jem_digits", "sampler.name=nope"),
    ("jem_digits", "optimizer.momentum=0.5"),
    ("jem_digits", "sampler.mala.step_size=0.2"),
    ("igebm_digits", "sampler.num_samples=0"),
    ("thermo_digits", "train.batch_size=71"),
    ("joint", "data.path=mine.npz"),  # without data.name it would train on the digits
    ("image", "data.path=mine.npz"),
    ("latent", "data.path=mine.npz"),
    ("toy_beta", "loss.beta_variant=nope"),
    ("toy_samplers", "eval.comparison.samplers=('nope',)"),
]


def test_a_bad_field_is_refused_without_jax():
    """In one process: of each family a name, a range, a field without effect, a pair."""
    code = (
        "import sys\nfrom ebmjax.recipes.config import command_line\n"
        "from ebmjax.recipes.run import command\n"
        f"for config, mistake in {MISTAKES!r}:\n"
        "    try:\n"
        "        command_line.read(f'configs/{config}.py', [f'--config.{mistake}'])\n"
        "    except SystemExit as ended:\n"
        "        print(ended.code, mistake.partition('=')[0] in str(ended), 'jax' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "2 True False\n" * len(MISTAKES)


def test_fields_print_without_jax_and_as_the_page_shows():
    code = (
        "import sys\nfrom ebmjax.recipes.config import show_fields\n"
        "sys.argv = ['ebmjax fields', 'configs/jem_digits.py:sam']\nshow_fields.main()\n"
        "print('jax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[-1] == "False"
    fields = families.fields_of(command_line.read("configs/jem_digits.py:sam", []))
    *described, more, _ = lines
    assert {line.partition(" = ")[0] for line in described} == set(fields)
    assert re.match(
        r"Other samplers .* --config.sampler.name=gradient_descent to see .* mala", more
    )
    (rho,) = (line for line in lines if line.startswith("optimizer.rho"))
    assert rho.startswith("optimizer.rho = 0.05  # radius of SAM")
    assert rho.endswith("[positive and finite, or None]")
    (momentum,) = (line for line in lines if line.startswith("optimizer.momentum"))
    assert momentum.endswith("; no effect here: needs config.optimizer.name=sgd]")
    page = (REPOSITORY / "docs/experiments.md").read_text()
    (shown,) = re.findall(r"```\n\$ ebmjax fields .*?\n(.*?)\$ ebmjax list", page, re.DOTALL)
    printed = shown.splitlines()
    assert len(printed) > 1
    assert set(printed) <= set(lines)


def test_the_fields_of_a_family_and_of_a_mistake(capsys, monkeypatch):
    from ebmjax.recipes.config import show_fields

    monkeypatch.setattr(sys, "argv", ["ebmjax fields", "energy"])
    show_fields.main()
    expected = "loss.name = 'contrastive_divergence'  # objective [contrastive_divergence, "
    assert expected in capsys.readouterr().out
    for name, rate in (("joint", "step_size = None"), ("joint:smoke", "num_epochs = 2")):
        monkeypatch.setattr(sys, "argv", ["ebmjax fields", name])
        show_fields.main()
        assert f".{rate}  # " in capsys.readouterr().out  # of configs/joint.py
    monkeypatch.setattr(sys, "argv", ["ebmjax fields", "configs/nowhere.py"])
    with pytest.raises(SystemExit) as ended:
        show_fields.main()
    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("sampler.name=denoising", "config.sampler.name must be one of"),
        ("sampler.name=malla", "got 'malla'. Did you mean 'mala'"),
        ("train.batch_size=0", "config.train.batch_size must be an integer of at least 1, got 0"),
    ],
)
def test_a_value_that_a_run_refuses_is_not_printed(argument, message, capsys, monkeypatch):
    from ebmjax.recipes.config import show_fields

    monkeypatch.setattr(sys, "argv", ["ebmjax fields", "joint", f"--config.{argument}"])
    with pytest.raises(SystemExit) as ended:
        show_fields.main()
    told = capsys.readouterr()
    assert (ended.value.code, told.out) == (2, "")
    assert message in told.err


@pytest.mark.parametrize(
    ("page", "row"), [("configuration.md", "| `seed` |"), ("experiments.md", "| `jem_digits.py` |")]
)
def test_the_site_fills_in_the_tables_of_a_page(page, row):
    text = (REPOSITORY / "docs" / page).read_text()
    filled = pages.fill_tables(text)
    assert row not in text
    assert row in filled
    assert pages.fill_tables(filled) == filled


def test_what_rounds_to_1_is_not_below_1():
    """A program takes numbers as arguments of 32 bits, where it could no longer be refused."""
    for values in (ranges.FRACTION, ranges.BELOW_ONE):
        largest = float(np.nextafter(np.float32(1), np.float32(0)))
        assert values.refusal(largest) is None
        assert values.refusal(0.99999999) == values.words


LARGEST, LEAST = float(np.finfo(np.float32).max), float(np.finfo(np.float32).tiny)
ENDS = {
    "POSITIVE": ((LEAST, 1, LARGEST), (0, -LEAST, True, "1", np.inf, np.nan)),
    "NOT_NEGATIVE": ((0, 0.0, LARGEST), (-LEAST, False, np.inf)),
    "FRACTION": ((0, 0.9999999), (-LEAST, 1, 1 - 2**-25)),
    "UP_TO_ONE": ((LEAST, 1), (0, 1.0000001)),
    "PROBABILITY": ((0, 1), (-LEAST, 1.0000001)),
    "FINITE": ((-LARGEST, 0, LARGEST), (-np.inf, np.nan)),
    "BELOW_ONE": ((-LARGEST, 0.9999999), (1, -np.inf)),
    "RADIUS": ((0, 10_000), (-LEAST, 10_000.001)),
    "WHOLE": ((0, 2**31 - 1), (-1, 1.0, True, 2**31)),
    "COUNT": ((1, 2**31 - 1), (0, 1.0, 2**31)),
    "TWO_OR_MORE": ((2,), (1,)),
    "COUNTS": ((1, (2, 1)), (0, (2, 0))),
    "ZERO_OR_TWO": ((0, 2), (1, -1)),
    "GRID": ((10, 5000), (9, 5001)),
    "SEED": ((0, 2**32 - 1), (-1, 2**32)),
    "FLAG": ((True, False), (0, 1, "True")),
    "NAME": (("a",), ("", 1)),
    "BANDWIDTH": (("median", LEAST), (0, "mean")),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_range_ends_where_its_words_say(name):
    accepted, refused = ENDS[name]
    values = getattr(ranges, name)
    assert [value for value in accepted if values.refusal(value)] == []
    assert [value for value in refused if not values.refusal(value)] == []


def test_numbers_that_32_bits_do_not_hold_are_refused():
    for value in (2 * LARGEST, LEAST / 2, -2 * LARGEST, -(2**31), [0.5, LEAST / 2]):
        assert ranges.FINITE.refusal(value).startswith("a number that 32 bits hold"), value
