"""Algorithms on whole files or in a notebook, independent of Kafka.

Manino, Tran-Thanh, Jennings: *Streaming Bayesian Inference for Crowdsourced Classification*,
NeurIPS 2019. Equation, line and algorithm numbers are those of that paper.
"""
