"""Documents of known formats: their text as units, and the file with translations in their place.

Takes the bytes of a file and gives units of texts and inline codes, and bytes again. A file that is
not translated stays equal as a tree, and a second round trip changes no byte
(tests/documents/test_samples.py). Imports flags of the translation and a library for each format.
"""
