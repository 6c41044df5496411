"""Every field of every family: its declaration, and that every wrong value is refused in a line."""

import contextlib
import io
import re

import pytest

from ebmjax.recipes.config import command_line, declare, families
from ebmjax.recipes.config.errors import ConfigError

FILES = {"joint": "joint", "energy": "image", "latent": "latent"}
FIELDS = [(family, name) for family in FILES for name in families.all_fields(family)]
HOSTILE = [
    "", "x", "-1", "0", "nan", "inf", "-inf", "1e400", "1e-60", "1.5", "True", "[]", "(1,)", "()",
    "None", "a\nb", "99999999999999999999", "x" * 5000, "é\x00", "{}", "-0.0", "0x10", "1_000",
    " 1", "1,", "'a'", "(" * 300, "__import__('os')",
]  # fmt: skip
LONGEST = 900
"""Characters of a refusal: choices of a name and conditions of a field are listed."""


def bring(family, name):
    """Arguments that bring a field into being, as its own conditions say."""
    fields = families.all_fields(family)
    found = []
    for when in fields[name].when:
        if re.match("no |our own|images, ", when.needs):  # as it is by default
            continue
        for other, value in re.findall(r"config\.([\w.]*\w)(?:=([\w.]+))?", when.needs)[:1]:
            one = fields[other]
            example = next((v for v in one.values.examples if v), "")
            found += [*bring(family, other), f"--config.{other}={value or example}"]
    return found


@pytest.mark.parametrize(("family", "name"), FIELDS)
def test_a_field_has_a_text_and_a_default_within_its_range(family, name):
    one = families.all_fields(family)[name]
    assert 0 < len(one.text) < 90
    assert one.values.refusal(one.default) is None
    assert one.values.may_be_none or one.default is not None
    for value in one.values.examples:
        assert one.values.refusal(value) is None
        given = (value,) if one.is_many and not isinstance(value, tuple) else value
        if not isinstance(value, tuple):
            assert declare.from_text(one, name, str(given)) == given


def test_a_name_has_one_kind_in_all_families():
    kinds = {}
    for family, name in FIELDS:
        kinds.setdefault(name, set()).add(families.all_fields(family)[name].values.kind)
    assert {name: found for name, found in kinds.items() if len(found) > 1} == {}


@pytest.mark.parametrize("family", FILES)
def test_the_defaults_of_a_family_are_a_configuration(family):
    families.check(declare.defaults(families.all_fields(family)))


def refused(config, arguments):
    """Returns what a command line prints where it is refused; None where it is taken."""
    told, code = io.StringIO(), None
    with contextlib.redirect_stderr(told), contextlib.redirect_stdout(io.StringIO()):
        try:
            found = command_line.read(config, arguments)
        except SystemExit as ended:
            code = ended.code
    if code is not None:
        assert code == 2
        return told.getvalue()
    for name, one in families.fields_of(found).items():
        assert one.values.refusal(found[name]) is None, name
    return None


def is_in_range(one, name, text):
    try:
        return one.values.refusal(declare.from_text(one, name, text)) is None
    except ConfigError:
        return False


def check_values(family, name, values):
    brought, one = bring(family, name), families.all_fields(family)[name]
    for value in values:
        told = refused(FILES[family], [*brought, f"--config.{name}={value}"])
        if told is not None:
            assert told.startswith("error: ")
            assert told.count("\n") == 1
            assert len(told) < LONGEST
            # A value within its range may not go with another field.
            assert name in told or ("config." in told and is_in_range(one, name, value))
        else:
            assert is_in_range(one, name, value)


@pytest.mark.parametrize("family", FILES)
def test_wrong_values_are_refused_in_a_line_that_names_the_field(family):
    """Tries two values of each field in turn; ``test_every_wrong_value`` has all."""
    names = [name for one, name in FIELDS if one == family]
    for place, name in enumerate(names):
        check_values(family, name, [HOSTILE[(2 * place + i) % len(HOSTILE)] for i in range(2)])


@pytest.mark.slow
@pytest.mark.parametrize(("family", "name"), FIELDS)
def test_every_wrong_value(family, name):
    check_values(family, name, HOSTILE)


PARTS = [(family, name) for family, name in FIELDS if families.all_fields(family)[name].when]


@pytest.mark.parametrize("family", FILES)
def test_a_field_of_a_part_that_is_not_named_is_refused_with_what_it_needs(family):
    """And a configuration that names the part has it."""
    fields = families.all_fields(family)
    there = families.fields_of(command_line.read(FILES[family], []), with_off=True)
    for name in (name for one, name in PARTS if one == family):
        given = ("", None, fields[name].off)  # it is off: nothing is said
        value = next(v for v in fields[name].values.examples if v not in given)
        given = f"--config.{name}={(value,) if isinstance(fields[name].default, tuple) else value}"
        if name not in there and not name.endswith(".every"):  # which wants an evaluator
            told = refused(FILES[family], [given])
            assert told is not None, name
            assert name in told
            assert any(w.needs in told for w in fields[name].when) or "must be" in told, told
