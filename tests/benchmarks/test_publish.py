"""docs/publish.py: the lists of versions beside their sites."""

import runpy
from pathlib import Path

publish = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "publish.py"))


def test_the_newest_version_is_led_to_and_all_are_listed(tmp_path):
    for name in ("0.9.0", "0.10.0", "1.0.0rc1", "images"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").write_text("a site")
    publish["write_lists"](tmp_path)
    assert publish["find_versions"](tmp_path) == ["1.0.0rc1", "0.10.0", "0.9.0"]
    assert "url=0.10.0/index.html" in (tmp_path / "index.html").read_text()
    listed = (tmp_path / "versions.html").read_text()
    assert listed.index(">1.0.0rc1<") < listed.index(">0.10.0<") < listed.index(">0.9.0<")
    assert "images" not in listed
