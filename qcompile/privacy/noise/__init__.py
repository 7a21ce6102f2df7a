"""All randomness, and the noise and selections made of it."""
