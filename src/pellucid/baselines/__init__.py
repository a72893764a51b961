"""Published mechanisms to compare with: never certified, never charged to an account."""
