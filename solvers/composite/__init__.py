"""Products, mixtures and alternating solutions of several parts."""
