"""Privacy: budgets in exact arithmetic, conversions with one-sided rounding, randomness and noise.

``exact_numbers`` reads numbers, ``ball_arithmetic`` is rigorous real arithmetic, ``accounting`` converts between
privacy definitions, ``budget`` is the request of a user, ``unit`` the relation of neighbouring tables, ``ledger`` the
account of a dataset. In ``noise``, ``random_bytes`` is the only source of randomness, ``rounded_gaussian`` the noise of
a release and ``opendp_gaussian`` its cross-check.
"""
