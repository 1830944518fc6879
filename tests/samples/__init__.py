"""Sample inputs and references for every operation of the registry: `atoms` and `primitives`."""
