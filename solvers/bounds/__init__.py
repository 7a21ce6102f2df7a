"""Lower bounds, and the spectra and roots they are made of."""
