"""What is recorded: the calls a module makes, as steps between values."""
