"""Documents of known formats: their text as units, and the file with translations in place of them."""
