"""Floating-point operations that a model asks for, without what an implementation does twice."""

from __future__ import annotations


def transformer_flops_per_token(parameters: float, *, layers: int = 0, width: int = 0, sequence: int = 0) -> float:
    """Return the FLOPs of training a dense transformer on one token, forward and backward.

    6 N for the weights (Kaplan et al. 2020) and 12 L H Q T for attention (Chowdhery et al. 2022, appendix B).
    Activations that are computed anew in the backward pass don't count: MFU is about the model, not about what the
    hardware was made to do.

    Args:
        parameters: N, without embeddings.
        layers: L; without it attention is left out.
        width: H × Q, heads by their size.
        sequence: T, tokens of a sequence.
    """
    return 6.0 * parameters + 12.0 * layers * width * sequence
