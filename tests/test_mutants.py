"""The table of mutants: each can still be made, and its tests are there."""

import mutants


def test_the_table_of_mutants_fits_the_code() -> None:
    table = mutants.read_table()
    assert len(table) >= 150
    assert mutants.table_errors(table) == []


def test_a_fragment_that_is_gone_and_a_test_that_is_not_there_are_told() -> None:
    gone = mutants.Mutant("gone", "ebmjax/types.py", "no such line", "", ("tests/no_file.py::f",))
    twice = mutants.Mutant("twice", "ebmjax/types.py", "PyTree", "Tree", ())
    told = "\n".join(mutants.table_errors([gone, twice, twice]))
    for expected in ("gone: 'no such line' must", "no test tests/no_file.py::f", "unique, found 2"):
        assert expected in told
