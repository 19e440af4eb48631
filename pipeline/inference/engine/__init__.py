"""The engine: labels, beliefs and counts in arrays, and the formulas that update them.

Tasks, workers and classes are integers; `ids` numbers their names. `engine` is the interface. It
builds on `queries` and `storage`; the other modules are compiled loops over one `State`.
"""
