"""The way back: relevance from the score through the recorded steps to the inputs."""
