"""Tests through the current client, see requirements.txt."""
