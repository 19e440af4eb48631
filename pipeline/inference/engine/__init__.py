"""The engine: labels, beliefs and counts in arrays, and the formulas that move them.

Tasks, workers and classes are integers here; `ids` is where names become integers. `engine` is the
interface; the other modules are its parts, compiled loops over one `State`.
"""
