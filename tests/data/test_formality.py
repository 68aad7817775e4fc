"""bytenmt.formality.shown_form on sentences of both languages, and data.formality in training."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bytenmt.config.schema import DataConfig, config_tree, load_config, parse_config
from bytenmt.data.augment.augmenter import Augmenter, asking_for_form
from bytenmt.data.batches import Batch
from bytenmt.data.corpus import ParallelCorpus
from bytenmt.data.text_file import TextFile
from bytenmt.formality import FORM_BYTES, shown_form
from bytenmt.layers.ngram_tables import NgramTables
from bytenmt.utf8 import ACCEPT, FORBIDDEN, UTF8_COST

FORMS = {"du": "informal", "Sie": "formal", "-": None}
# Each line: what it shows, then a sentence.
GERMAN = """
du  Hast du den Schlüssel gesehen?
du  Ich habe dir gestern geschrieben.
du  Wir holen dich um acht ab.
du  Dein Konto ist noch nicht bestätigt.
du  Speichere die Datei in deinem Ordner.
du  Vielen Dank für Deine Nachricht!
du  Wollt ihr heute mit uns essen?
du  Wenn ihr fertig seid, ruft uns an, ihr könnt auch schreiben.
du  Wir haben euch sehr vermisst.
du  Eure Kinder spielen im Garten.
du  Gib dein Passwort ein.
du  Nimm den Bus um halb neun.
du  Lies zuerst die Anleitung.
du  Vergiss den Regenschirm nicht!
du  Klicke auf die Schaltfläche unten rechts.
du  Wähle eine Sprache
du  Bitte warte einen Augenblick.
du  Bitte gib eine Zahl ein.
du  Öffne die Einstellungen und prüfe die Adresse.
du  Sei nicht so laut.
du  Komm herein, die Tür ist offen.
du  Lass uns morgen weitermachen.
du  Er fragte: „Kommst du mit?“
du  Helft mir bitte beim Tragen!
Sie  Haben Sie den Schlüssel gesehen?
Sie  Ich habe Ihnen gestern geschrieben.
Sie  Klicken Sie auf die Schaltfläche.
Sie  Bitte geben Sie Ihr Passwort ein.
Sie  Wir danken für Ihre Bestellung.
Sie  Wenn Sie fertig sind, drücken Sie die Taste.
Sie  Möchten Sie die Änderungen speichern?
Sie  Der Ordner, den Sie gewählt haben, ist leer.
Sie  In diesem Menü finden Sie alle Befehle.
Sie  Nehmen Sie bitte Platz.
Sie  Das hängt von Ihrem Gerät ab.
Sie  Wo ist Ihr Mann?
Sie  Wie heißt Ihr kleiner Hund?
Sie  Stellen Sie sicher, dass `dir` und `du` installiert sind.
Sie  Sie müssen zuerst Ihre Adresse angeben.
Sie  Rufen Sie uns an, wir helfen Ihnen gern.
Sie  Warum, glauben Sie, ist das so?
Sie  Der Server hat Ihre Anfrage abgelehnt.
-  Sie kommt aus Hamburg.
-  Sie haben gestern lange gewartet.
-  Ihr Bruder wohnt in Köln.
-  Ihnen wurde nichts gesagt.
-  Datei öffnen
-  Die Datei wurde gespeichert.
-  Bitte warten …
-  Öffne Datei …
-  Lade Daten ...
-  Einstellungen zurücksetzen
-  Er gab ihr das Buch, und sie las es.
-  Wir trafen uns im Café du Monde.
-  Der Befehl `du` zeigt die Größe an.
-  Suche in allen Ordnern
-  Hast du Ihr Auto gesehen, Frau Meier?
-  Haben Sie dich gefragt?
-  Siehe auch Kapitel drei.
-  Ich gehe jetzt nach Hause.
-  Tritt auf, wenn ein Knoten fehlt.
-  Das „Sie“ ist höflich.
-  Use dir to list the files and du to sum the sizes.
-  I told you that Sie is German.
"""
KOREAN = """
du  문을 닫아 주세요.
du  어디에 가세요?
du  파일을 선택하세요
du  저는 매일 아침 커피를 마셔요.
du  지금 비가 와요.
du  같이 점심 먹을까요?
du  그건 제 가방이에요.
du  내일 전화할게요.
du  정말 맛있네요!
du  이 버튼을 누르면 창이 닫혀요.
du  설정에서 언어를 바꿔 보세요.
du  벌써 다 끝났죠?
du  이름이 뭐예요?
du  잠깐만 기다려 줘.
du  나 지금 집에 가고 있어.
du  너 어제 어디 갔어?
du  그건 내 잘못이 아니야.
du  걱정하지 마.
du  오늘은 정말 피곤해.
du  나도 같이 갈래!
du  우리 내일 만나자. 내가 데리러 갈게.
du  그 영화는 벌써 봤거든.
du  “괜찮아요.” 그가 웃었다.
du  저장하지 않은 내용이 있어요 (3개).
du  한번 생각해 봐.
Sie  파일이 저장되었습니다.
Sie  문을 닫아 주십시오.
Sie  어디에 가십니까?
Sie  이 옵션은 로그를 출력합니다.
Sie  계속하려면 확인을 누르십시오.
Sie  변경 내용을 저장하시겠습니까?
Sie  저는 학생입니다.
Sie  회의는 세 시에 시작됩니다
Sie  그곳은 눈이 거의 내리지 않습니다.
Sie  방문해 주셔서 감사합니다!
Sie  오류가 발생했습니다: %s
Sie  서버에 연결할 수 없습니다(코드 12).
Sie  다음 명령을 실행합니다.
Sie  자세한 내용은 설명서를 참조하십시오.
Sie  이 문제는 다음 판에서 해결될 것입니다.
Sie  비밀번호가 일치하지 않습니다. 다시 입력해 주십시오.
Sie  몇 시에 문을 엽니까?
Sie  “안녕”이라고 말했습니다.
-  파일 열기
-  새 문서
-  그는 어제 서울에 갔다.
-  이 함수는 값을 돌려준다.
-  필요
-  개요.
-  로그인 필요
-  설정 저장됨
-  그는 회사에 다니다.
-  그는 가수다.
-  저장했습니다. 이제 창을 닫으세요.
-  안녕하세요. 저는 김민수입니다.
-  비가 오니까 우산을 가져간다.
-  1. 소개
-  저장하지 않음
-  사용자 이름
-  외국어.
-  새로운 분야.
-  모두 삭제
-  다음 페이지로 이동
-  시작 화면으로 돌아가기
-  이 도구를 통해.
-  확인을 위해
-  C#에서 통해 .NET 사용
-  왜 이 방법을 쓸까?
"""


def examples(text: str) -> list[tuple[str, str | None]]:
    """Return the sentences of a list with the form that each shows."""
    lines = [line.split("  ", 1) for line in text.strip().splitlines()]
    return [(sentence, FORMS[sign]) for sign, sentence in lines]


@pytest.mark.parametrize(("sentence", "form"), examples(GERMAN))
def test_german_lines_show_their_form(sentence: str, form: str | None) -> None:
    assert shown_form(sentence) == form


@pytest.mark.parametrize(("sentence", "form"), examples(KOREAN))
def test_korean_lines_show_their_form(sentence: str, form: str | None) -> None:
    assert shown_form(sentence) == form


@given(st.text())
def test_any_text_has_an_answer(text: str) -> None:
    assert shown_form(text) in ("informal", "formal", None)


def test_the_bytes_are_never_of_utf8() -> None:
    """A search may not write them in any state of the automaton."""
    for byte in FORM_BYTES.values():
        assert (UTF8_COST[:, byte[0]] == FORBIDDEN).all()
    assert set(FORM_BYTES.values()) == {b"\xc0", b"\xc1"} and UTF8_COST[ACCEPT, 0xC2] != FORBIDDEN


CHARACTERS = st.characters(exclude_categories=["Cs"])
SENTENCES = [sentence for sentence, _ in examples(GERMAN + KOREAN.lstrip())]


def corpus() -> ParallelCorpus:
    """Return pairs whose sources are numbered and whose targets are the sentences above."""
    sources = "".join(f"Line {k} Here\n" for k in range(len(SENTENCES)))
    targets = "".join(f"{sentence}\n" for sentence in SENTENCES)
    return ParallelCorpus.from_texts(
        TextFile.from_bytes(sources.encode(), "s"), TextFile.from_bytes(targets.encode(), "t")
    )


def changed(
    share: float, seed: int = 1, epoch: int = 0, part: tuple[int, int] = (0, 1), **other: Any
) -> list[tuple[bytes, bytes]]:
    """Return the pairs of one batch of all sentences after augmentation."""
    augmenter = Augmenter(corpus(), DataConfig(formality=share, **other), seed)
    pairs = [(f"Line {k} Here".encode(), text.encode()) for k, text in enumerate(SENTENCES)]
    batch = Batch.from_pairs(pairs[part[0] :: part[1]])
    return augmenter.change(batch, 3, epoch, part).pairs()


def test_all_pairs_with_a_form_ask_for_it_at_a_share_of_one() -> None:
    for k, (source, target) in enumerate(changed(1.0)):
        form = shown_form(SENTENCES[k])
        asked = FORM_BYTES[form] if form is not None else b""
        assert source == asked + f"Line {k} Here".encode() and target == SENTENCES[k].encode()


def test_a_share_of_the_pairs_is_drawn_by_seed_epoch_and_row() -> None:
    pairs = changed(0.5)
    shows = [shown_form(sentence) is not None for sentence in SENTENCES]
    asked = [source[:1] in FORM_BYTES.values() for source, _ in pairs]
    assert 0.3 < sum(asked) / sum(shows) < 0.7
    assert not any(has for has, shown in zip(asked, shows, strict=True) if not shown)
    assert pairs == changed(0.5)
    assert pairs != changed(0.5, seed=2) and pairs != changed(0.5, epoch=1)
    assert pairs[1::3] == changed(0.5, part=(1, 3))


def test_the_byte_comes_after_all_other_changes() -> None:
    """Of the original target: capitals hide the form. Noise does not change it, and no other draw
    depends on it."""
    others: dict[str, Any] = {"noise": 0.5, "upper_case": 0.5, "unpunctuated": 0.5}
    others["empty_source"] = 0.3
    without = changed(0.0, **others)
    for k, (source, target) in enumerate(changed(1.0, **others)):
        form = shown_form(SENTENCES[k])
        expected = without[k][0]
        if form is not None and expected:
            expected = FORM_BYTES[form] + expected
        assert (source, target) == (expected, without[k][1])
    assert any(not source for source, _ in without)


def test_a_source_at_its_limit_and_an_empty_one_stay() -> None:
    assert asking_for_form(b"", b"Hast du Zeit?") == b""
    pairs = changed(1.0, max_source_bytes=12)
    asked = [source[:1] in FORM_BYTES.values() for source, _ in pairs]
    assert any(asked[:10]) and not any(asked[10:])  # "Line 9 Here" has 11 bytes
    assert all(len(source) <= 12 for source, _ in pairs[:100])


def test_small_letters_are_of_the_source_alone() -> None:
    for k, (source, target) in enumerate(changed(0.0, lower_case=1.0)):
        assert source == f"line {k} here".encode() and target == SENTENCES[k].encode()


@given(st.text(CHARACTERS, min_size=1, max_size=12), st.sampled_from(sorted(FORM_BYTES.values())))
def test_ngrams_and_words_of_a_source_stay(text: str, asked: bytes) -> None:
    """Of each byte behind the one that asks for a form, also if it is read alone."""
    tables = NgramTables(1, (2, 3, 8), 1 << 16, fold_case=True, n_word_rows=1 << 16)
    start = tables.start(1, torch.device("cpu"))
    source = text.encode()
    plain = tables.row_numbers(as_row(source), start)
    assert torch.equal(tables.row_numbers(as_row(asked + source), start)[:, 1:], plain)
    recent = torch.cat([start[0], as_row(asked)], dim=1)[:, 1:]
    after = recent, tables.prefix_hashes(as_row(asked), start[1])[:, -1]
    assert torch.equal(tables.row_numbers(as_row(source), after), plain)


def as_row(text: bytes) -> torch.Tensor:
    return torch.from_numpy(np.frombuffer(text, np.uint8).copy())[None]


def test_a_configuration_without_forms_has_no_such_key() -> None:
    """So that the fingerprints of older ones stay."""
    plain = load_config("luong", "tiny", [])
    assert "formality" not in config_tree(plain)["data"]
    assert parse_config(config_tree(plain)) == plain
    able = load_config("luong", "tiny", ["data.formality=0.5"])
    assert config_tree(able)["data"]["formality"] == 0.5
    assert parse_config(config_tree(able)) == able and able.data.augmentations == ("formality",)
