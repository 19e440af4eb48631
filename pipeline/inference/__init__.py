"""The mathematics: every algorithm of the paper behind one interface, independent of Kafka.

Manino, Tran-Thanh, Jennings: *Streaming Bayesian Inference for Crowdsourced Classification*,
NeurIPS 2019. Equation, line and algorithm numbers in this package are those of that paper.
"""
