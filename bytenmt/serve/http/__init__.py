"""The service over HTTP: LibreTranslate's API, streams, a websocket and a page."""
