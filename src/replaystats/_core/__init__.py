"""Ground floor: errors, validation, randomness, batched linear algebra, memory and progress.

Imports nothing from the rest of the package; every other stage may import it.
"""
