"""The `whence` command. Each file parses one subcommand, calls the library and prints."""
