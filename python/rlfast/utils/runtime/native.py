"""What policies and collectors share about acting in Rust."""


class NotNativeError(Exception):
    """A policy cannot act in Rust, or a collector cannot collect there; the text says why."""
