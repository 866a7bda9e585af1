"""The compiled path: a layer's steps in C, built by the user's own compiler."""
