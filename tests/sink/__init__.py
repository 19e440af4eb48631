"""Tests of `sbic sink`."""
