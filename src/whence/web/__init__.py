"""`whence serve`: the service behind the page. It needs the extra `web`."""
