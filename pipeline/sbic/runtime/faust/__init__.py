"""Faust on batches: changes to faust-streaming 0.15.3 that make it fast, and lose no records.

Each file works around one part of Faust or aiokafka, describes its behaviour, and has a test that
fails when the workaround is no longer needed. Agents and tables are Faust's, but get batches.
"""
