"""The Faust app: agents that read batches, pass them to the stages, and publish the results."""
