"""Forms of address: which one a line of German or Korean shows, and the byte that asks for one.

UTF-8 never uses the bytes 0xC0 and 0xC1. A source that begins with one of them asks for a
translation with that form of address; the search never writes them.

    informal  German du and ihr; Korean 해 and 해요
    formal    German Sie; Korean 합니다 and 하십시오

The rules prefer silence to a guess: a line that shows no form for sure, or both, has none.
"""

from __future__ import annotations

import re
from typing import Literal, get_args

from bytenmt.kernel_constants import FORMAL_BYTE, INFORMAL_BYTE

Form = Literal["informal", "formal"]
FORMS: tuple[Form, ...] = get_args(Form)
FORM_BYTES: dict[Form, bytes] = {"informal": bytes([INFORMAL_BYTE]), "formal": bytes([FORMAL_BYTE])}

# Patterns, which `re` compiles and keeps at their first use: who only asks for a form has no need.
_HANGUL = "[가-힣]"
_CODE = r"`[^`]*`|<[^<>]*>|\{[^{}]*\}"
# Words of English text: in it "du", "dir" or "die" are commands, names or verbs.
_ENGLISH = r"(?<![\w-])(?:the|of|and|you|your|with|is|this|to|for)(?![\w-])"

# German. `Sie` and `Ihr` at the beginning of a sentence may be "she", "they", "her" or "their".
_INSIDE = r"(?:(?<=[a-zäöüß] )|(?<=[a-zäöüß], )|(?<=[a-zäöüß)`], )|(?<=[A-ZÄÖÜ]{2} ))"
_SIE = (
    rf"{_INSIDE}(?:Sie|Ihnen)\b(?!-)"
    # "Ihr" before a noun, or an adjective and a noun; not the plural of du in a letter, "habt Ihr"
    rf"|{_INSIDE}Ihr(?:e|em|en|er|es)\b|{_INSIDE}Ihr (?=(?:[a-zäöüß-]+(?:es|er|e|en|em) )?[A-ZÄÖÜ])"
)
_IHR_VERB = (
    r"(?:habt|seid|könnt|müsst|müßt|sollt|wollt|dürft|werdet|wart|hattet|wisst|kennt|möchtet|mögt"
    r"|könntet|solltet|würdet|wolltet|musstet|braucht|geht|kommt|macht|seht|denkt|glaubt|findet)"
)
_DU = (
    r"(?<![\w'’./-])(?:"
    r"[Dd](?:u|ich|ir)|[Dd]ein(?:e[mnrs]?)?|[Dd]einetwegen|[Ee]uch|[Ee]u(?:er|re[mnrs]?)"
    rf"|[Ii]hr {_IHR_VERB}|(?i:{_IHR_VERB}) [Ii]hr"
    r")(?![\w'’/-]|\.\w)"
)
# Foreign names with "du": Café du Monde, Rue du Bac, Du Bois.
_NOT_DU = (
    r"\b(?i:Café|Rue|Avenue|Boulevard|Place|Cirque|Tour|Île|Palais|Musée|Hôtel|Château|Côte|Lac|Pont)"
    r" du (?=[A-ZÉ])|\bDu (?=Bois|Pont)"
)
# What a command to a friend, or to several, begins with; no other form of the verb is the same.
_STRONG = (
    r"Gib|Nimm|Sieh|Lies|Hilf|Vergiss|Vergiß|Sprich(?!,)|Iss|Wirf|Triff|Lass|Laß|Geh|Komm|Mach|Schau"
    r"|Sag|Hör|Bleib|Setz|Leg|Stell|Denk|Trink|Bring|Schreib|Frag|Zieh|Zeig|Hol|Kauf|Lauf|Schlaf"
    r"|Steh|Pass auf|Hab keine|Glaub|Dreh|Drück|Schick|Wähl|Füg|Wasch|Fahr|Lern|Erzähl|Probier|Kämm"
    r"|Sei (?:nicht|so|bitte|still|leise|ruhig|vorsichtig|nett|lieb|brav|doch|froh)"
    r"|Gebt|Nehmt|Vergesst|Vergeßt|Lasst|Laßt|Helft|Lest|Werft"
)
# Forms in -e are also those of "I" with the pronoun left out, in which programs say what they do
# ("Lade Daten …"), and some are nouns. These verbs ask a reader to act,
_WEAK = (
    r"Klicke|Wähle|Tippe|Drücke|Gehe|Füge|Melde|Warte|Verwende|Benutze|Nutze|Achte|Beachte|Wische"
    r"|Stelle sicher|Versuche|Kontaktiere|Besuche|Entdecke|Erfahre|Probiere|Bestätige|Behalte"
)
# and these where a sign ends the sentence.
_WEAK_WITH_SIGN = (
    r"Öffne|Überprüfe|Prüfe|Erstelle|Installiere|Aktiviere|Deaktiviere|Entferne|Lösche|Speichere"
    r"|Ändere|Ziehe|Halte|Schließe|Schalte|Führe|Setze|Lege|Bearbeite|Aktualisiere|Kopiere|Lerne"
    r"|Verbinde|Denke|Antworte|Schreibe|Bringe|Beginne|Vergleiche|Konfiguriere|Scanne|Erlaube"
)
_COMMAND = (
    rf"(?:^|(?<=[.!?:] )|(?<=[„“\"»(]))(?:{_STRONG})\b(?! ich\b)"
    rf"|^Bitte (?i:{_STRONG}|{_WEAK}|{_WEAK_WITH_SIGN})\b(?! ich\b)"
)
_WEAK_COMMAND = rf"^(?:{_WEAK}) (?!ich\b)\w|^(?:{_WEAK_WITH_SIGN}) (?!ich\b)\w.*[^.…][.!:]\Z"
_PROGRESS = r"(?:…|\.\.\.)\W*\Z"  # "Öffne Datei …": a program says what it does

# Korean: the end of each sentence tells.
_SENTENCE = r"(.*?)([.!?。…~;|]+(?=[\s\"'”’)\]」』]|\Z)|\Z)"
_PARENTHESES = r"\([^()]*\)"
_NOT_HANGUL_AT_END = r"[^가-힣]+\Z"
_FORMAL_END = r"(?:십시오|십시요|주시오|하시오)\Z"
# Formal behind a syllable that ends in ㅂ: 합니다, 합니까; not 다니다, 하니까.
_NIDA = r"([가-힣])(?:니다|니까)\Z"
# The number of a syllable from 가 on, modulo 28, is that of its final letter.
_FIRST_SYLLABLE = 0xAC00
_N_FINALS = 28
_FINAL_B = 17  # ㅂ
_YO = r"(?:요|죠)\Z"
_NOUN_IN_YO = r"(?:필|중|개|주|수|소|강|동|민|담|고|긴|도|월|일)요\Z"
# 해체, only where a sign ends the sentence: nouns look like it.
_PLAIN_INFORMAL = (
    r"(?:[았었했였겠갔왔됐봤줬렸졌났섰켰썼](?:어|지|네|니|냐|거든)|잖아|거든|[는은던]데"
    r"|[할될갈올볼줄을](?:게|래)|고 싶어|않아|있어|없어|같아|좋아|싫어|알아|몰라"
    r"|지 ?마|하자|가자|하니"
    r"|[져봐줘돼춰둬놔]|(?<![분시광평들해어아여와워돼])야"
    r"|(?<![이오피새침저손동남서북올금방항공유분양견화상통위대의관])해)\Z"
)


def with_form(source: bytes, form: Form | None) -> bytes:
    """Prefix a source with the byte by which a model is asked for a form of address.

    form: "informal" (German du), "formal" (German Sie), or None, which adds no byte.
    """
    return source if form is None else FORM_BYTES[form] + source


def shown_form(target: str) -> Form | None:
    """Return the form of address that a line of German or Korean shows: "informal" or "formal".

    None if it shows neither or both. A line with Hangul is read as Korean, any other as German; one
    with English words shows no form.
    """
    text = re.sub(_CODE, "`", target)
    if re.search(_HANGUL, text):
        is_informal, is_formal = _korean_forms(text)
    else:
        is_informal, is_formal = _german_forms(text)
    if is_informal == is_formal:
        return None
    return "informal" if is_informal else "formal"


def _german_forms(text: str) -> tuple[bool, bool]:
    """Return whether a line has signs of the informal and of the formal address."""
    if re.search(_ENGLISH, text):
        return False, False
    is_formal = re.search(_SIE, text) is not None
    is_informal = re.search(_DU, re.sub(_NOT_DU, "", text)) is not None
    is_informal |= re.search(_COMMAND, text) is not None
    if not is_informal and not re.search(_PROGRESS, text):
        is_informal = re.search(_WEAK_COMMAND, text) is not None
    return is_informal, is_formal


def _korean_forms(text: str) -> tuple[bool, bool]:
    """Return whether a sentence of a line ends informally, and whether one ends formally."""
    is_informal = is_formal = False
    for sentence, sign in re.findall(_SENTENCE, re.sub(_PARENTHESES, "", text)):
        end = re.sub(_NOT_HANGUL_AT_END, "", sentence)
        is_formal |= _is_formal_end(end)
        is_informal |= _is_informal_end(end, bool(sign.strip()))
    return is_informal, is_formal


def _is_formal_end(sentence: str) -> bool:
    """Return whether a sentence, which ends in a syllable, ends as 합니다 or 하십시오."""
    if re.search(_FORMAL_END, sentence):
        return True
    match = re.search(_NIDA, sentence)
    return match is not None and (ord(match[1]) - _FIRST_SYLLABLE) % _N_FINALS == _FINAL_B


def _is_informal_end(sentence: str, has_sign: bool) -> bool:
    """Return whether a sentence ends as 해요 or, if a sign follows, as 해."""
    if re.search(_YO, sentence):
        return re.search(_NOUN_IN_YO, sentence) is None
    return has_sign and re.search(_PLAIN_INFORMAL, sentence) is not None
