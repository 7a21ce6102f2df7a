"""Privacy: budgets in exact arithmetic, conversions with one-sided rounding, randomness and noise.

``exact`` reads numbers, ``balls`` is rigorous real arithmetic, ``accounting`` converts between privacy definitions,
``budget`` is the request of a user, ``source`` the only place randomness comes from, ``rounded`` the noise of a
release, ``opendp_noise`` its cross-check.
"""
