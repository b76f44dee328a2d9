"""The one exception of the bench."""


class BenchFailed(Exception):
    """A measurement that cannot be trusted, or a server that did not start; the text is for whoever ran the bench."""
