"""The Faust app: agents that read batches, ask the stages what to make of them, and publish it."""
