"""The command: parse, call the library, print."""
