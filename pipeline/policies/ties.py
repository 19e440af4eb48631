"""Tie-breakers between tasks with the same key: pseudo-random, and the same in all processes."""

from pipeline.inference.compiled import kernel

# Multiplication is done by limbs of 31 bits: products fit into 63, whether or not it is compiled.
LIMB = 31
MASK = (1 << LIMB) - 1
STEP = 0x9E3779B97F4A7C15
STEP_0, STEP_1, STEP_2 = STEP & MASK, STEP >> LIMB & MASK, STEP >> 2 * LIMB
MIX = 0xD6E8FEB86659FD93
MIX_0, MIX_1, MIX_2 = MIX & MASK, MIX >> LIMB & MASK, MIX >> 2 * LIMB


@kernel
def tie_of(salt: int, labels: int, in_flight: int) -> int:
    """The tie-breaker: bits 32 to 91 of (salt ^ (labels + 2^32 in_flight) STEP) MIX.

    The middle bits of a product depend on all bits of both numbers.
    """
    step = labels + (in_flight << 32)
    low, middle, high = _product(
        step & MASK, step >> LIMB & MASK, step >> 2 * LIMB, STEP_0, STEP_1, STEP_2
    )
    _, middle, high = _product(low ^ salt & MASK, middle ^ salt >> LIMB, high, MIX_0, MIX_1, MIX_2)
    return middle >> 1 | (high & MASK >> 1) << LIMB - 1


@kernel
def _product(a0: int, a1: int, a2: int, b0: int, b1: int, b2: int) -> tuple[int, int, int]:
    """The lowest three limbs."""
    low = a0 * b0
    middle = (low >> LIMB) + a0 * b1 + a1 * b0
    high = (middle >> LIMB) + (a0 * b2 & MASK) + (a1 * b1 & MASK) + (a2 * b0 & MASK)
    return low & MASK, middle & MASK, high & MASK
