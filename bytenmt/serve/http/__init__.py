"""The service over HTTP: LibreTranslate's API, streams and a page."""
