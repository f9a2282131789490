"""Tests through the client of the 0.15 servers, see requirements.txt: older shapes, and calls that later ones dropped."""
