"""Faust a batch at a time: what faust-streaming 0.15.3 needs to be fast here, and to lose nothing.

Each file works around one part of Faust, says which behaviour, and has a test that fails when it
is no longer needed. Agents and tables stay Faust's; what flows through them are batches.
"""
