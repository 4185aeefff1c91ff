"""Which layout to choose: cost models, their constants, advice."""
