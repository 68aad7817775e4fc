"""Check the verdicts of the page and its count of doubtful units in Chromium; take pictures of it.

Needs `pip install playwright` and a browser: that of `playwright install chromium`, or the program
of --chromium. The server translates from English into German, as this one does:

    bytenmt serve en-de=data/models/en-de --port 5000
    python tools/verify/page.py http://127.0.0.1:5000/ PICTURES --chromium /usr/bin/chromium
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

# The first sentences are easy; the others have words that no model knows.
TEXT = (
    "Hello! 😊 The gizmo of the frobnicator is kaputt and Zorbax knows.\n\n"
    "What time does the train leave? Qwxz vrtl 7 plok 8 mnx 9 gfd."
)
# A file with three texts, of which the last one is doubtful.
FILE = {
    "name": "menu.json",
    "mimeType": "application/json",
    "buffer": b'{"a": "Open file", "b": "Cancel", "c": "Qwxz vrtl plok mnx"}',
}
REASON = re.compile(r"^(Check this|Probably wrong): .+\.$")
# The width and height of the window, and its colours, by the name of the picture.
VIEWS = {
    "wide": (1100, 700, "light"),
    "dark": (1100, 700, "dark"),
    "narrow": (390, 844, "light"),
}


def check_verdicts(page: Page) -> int:
    """Look at the reason of each underlined sentence, by pointer and keyboard; return how many."""
    from playwright.sync_api import expect

    page.get_by_label("From").select_option("en")
    page.get_by_role("textbox", name="Text").fill(TEXT)
    doubts = page.locator("#target .doubt")
    expect(doubts.first).to_be_visible(timeout=30_000)
    expect(page.locator("#detail")).to_contain_text(re.compile("to check|probably wrong"))
    reason = page.locator("#why")
    for doubt in doubts.all():
        doubt.hover()
        expect(reason).to_have_text(REASON)
        expect(reason).to_be_in_viewport(ratio=1)
        reason.hover()  # the pointer can reach it
        page.wait_for_timeout(400)
        expect(reason).to_be_visible()
        page.mouse.move(1, 1)
        expect(reason).to_be_hidden()
    page.locator("#target").focus()
    for doubt in doubts.all():
        page.keyboard.press("Tab")
        expect(doubt).to_be_focused()
        expect(doubt).to_have_accessible_description(REASON)
        expect(reason).to_be_visible()
    page.keyboard.press("Escape")
    expect(reason).to_be_hidden()
    doubts.first.hover()
    expect(reason).to_be_visible()
    n_doubts: int = doubts.count()
    return n_doubts


def check_file(page: Page) -> None:
    """Translate a file, download it, and see how many of its units are to be reviewed."""
    from playwright.sync_api import expect

    page.locator("#file").set_input_files(FILE)
    said = page.locator("#said")
    expect(said).to_contain_text(re.compile(r"\([1-3] of 3 texts to review\)"), timeout=30_000)
    with page.expect_download() as download:
        said.get_by_role("link").click()
    assert download.value.suggested_filename == "menu_de.json"


def _noted_errors(page: Page) -> list[str]:
    """Return a list that gets whatever the page's console prints."""
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text))
    page.on("pageerror", lambda error: errors.append(str(error)))
    return errors


def main() -> None:
    """Check the page in each of VIEWS."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("url", metavar="URL", help="address of the server")
    parser.add_argument("pictures", metavar="FOLDER", type=Path, help="for the pictures")
    parser.add_argument("--chromium", metavar="FILE", help="program of the browser")
    arguments = parser.parse_args()
    from playwright.sync_api import sync_playwright  # here: --help does without it

    arguments.pictures.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=arguments.chromium, args=["--no-sandbox"]
        )
        for name, (width, height, scheme) in VIEWS.items():
            size = {"width": width, "height": height}
            page = browser.new_page(viewport=size, color_scheme=scheme)
            errors = _noted_errors(page)
            page.goto(arguments.url)
            n_doubts = check_verdicts(page)
            check_file(page)
            page.screenshot(path=arguments.pictures / f"{name}.png")
            assert not errors, errors
            print(f"{name}: {n_doubts} underlined sentences have their reasons, a file its count")
            page.close()


if __name__ == "__main__":
    main()
