"""The backward pass: relevance goes from the score through the recorded steps to the inputs."""
