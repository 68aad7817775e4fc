"""The page is allowed to run nothing but itself."""

from __future__ import annotations

import re

from made_up_service import client

from bytenmt.serve.http.page import page


def test_a_page_is_one_file_that_asks_nobody_else() -> None:
    with client() as asked:
        answer = asked.get("/")
    policy = answer.headers["content-security-policy"]
    assert answer.headers["content-type"].startswith("text/html") and "default-src 'none'" in policy
    assert "unsafe" not in policy and "*" not in policy and policy.count("'sha256-") == 2
    assert not re.search(r"https?://|//[a-z]|\son[a-z]+=|\sstyle=|innerHTML|eval\(", answer.text)
    assert re.search(r'<html lang="en">', answer.text) and "<title>" in answer.text
    for field in re.findall(r'<label[^>]*for="(\w+)"', answer.text):  # each names a field that is there
        assert f'id="{field}"' in answer.text
    assert page()[0] == answer.text
