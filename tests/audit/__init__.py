"""The audit: everything that a plan promises about privacy, checked from outside and without its own arithmetic.

Read in this order:

- ``designs``: random small plans of every solver, centring, kind of block and privacy unit.
- ``exported``: what neighbouring tables can differ by, written out from the matrices that a plan exports.
- ``witness``: a run that is watched: what was drawn, from which random bits, on what center, at which state of the
  ledger; and the release recomputed from these bits.
- ``attack``: an adversary who sees releases of two neighbouring tables and must tell them apart.
- ``law``: the joint distribution of all that is released, empty cells included.
- ``bugs``: faults that are planted into the running code.

Each of the four in the middle offers detectors, functions called ``check_...`` that raise AssertionError. The tests
``test_random_plans``, ``test_attack`` and ``test_law`` call them on the code as it is; ``test_planted_bugs``
calls the same functions with a bug in place and fails where none of them objects.
"""
