"""The rules by kind of call, and the table that says which torch function falls under which."""
