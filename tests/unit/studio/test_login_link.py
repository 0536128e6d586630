from pathlib import Path

import pytest

from unitail.studio.login_link import load_or_make_token, redirect_page
from unitail.web.access import Access

LINK = "http://127.0.0.1:8765/?token=a-token-of-24-characters&x=1"


def test_a_token_is_kept_where_its_owner_alone_can_read_it(tmp_path: Path) -> None:
    file = tmp_path / "cache" / "token"
    token = load_or_make_token(file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert load_or_make_token(file) == token
    assert Access.at("127.0.0.1", token=token).is_token(token)


@pytest.mark.parametrize(("text", "mode"), [("short", 0o600), ("x" * 40, 0o644), ("ü" * 40, 0o600)])
def test_a_token_that_others_may_know_is_replaced(tmp_path: Path, text: str, mode: int) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    file.chmod(mode)
    assert load_or_make_token(file) != text
    assert (file.read_text(), file.stat().st_mode & 0o777) == (load_or_make_token(file), 0o600)


def test_without_a_place_to_keep_it_a_token_is_made_anyway(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert len(load_or_make_token(tmp_path / "file" / "token")) > 20


def test_a_page_that_its_owner_alone_can_read_leads_to_the_link(tmp_path: Path) -> None:
    (tmp_path / "open.html").write_text("what a killed studio left")
    with redirect_page(tmp_path, LINK) as address:
        page = tmp_path / "open.html"
        assert address == page.as_uri()
        assert page.stat().st_mode & 0o777 == 0o600
        assert LINK.replace("&", "&amp;") in page.read_text()
        assert "token" not in address
    assert not page.exists()
    with redirect_page(tmp_path / "none", LINK) as address:
        assert Path(address.removeprefix("file://")).exists()
    assert not Path(address.removeprefix("file://")).exists()
