"""Lines in, translations out: kept spans, sentences, glossaries, settings, flags, reranking.

>>> from bytenmt.translation.confidence import Verdict
>>> from bytenmt.translation.translator import Translator
>>> translator = Translator.load("runs/mine", beam=2)
>>> (result,) = translator.translate_lines([b"one dog"])
>>> result.source, result.best.text.decode() == translator.translate("one dog")
(b'one dog', True)
>>> Verdict.from_flags(["loop"]).level
'wrong'

Takes lines, or the texts and inline codes of documents, and gives a TranslationResult for each
(translator.Translator). A LineBatch cuts lines into chunks and asks for each distinct chunk once;
an engine of the room decoding decodes them. Imports nothing that needs PyTorch.
"""
