"""Lines in, translations out: kept spans, sentences, glossaries, settings, flags, reranking.

Takes lines, or the texts and inline codes of documents, and gives a TranslationResult for each
(translator.Translator). A LineBatch cuts lines into chunks and asks for each distinct chunk once;
an engine of the room decoding decodes them. Imports nothing that needs PyTorch.
"""
