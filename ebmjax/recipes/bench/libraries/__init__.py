"""Libraries that sit the exam: one file each. Imports none of them before it runs.

A file has ``PACKAGE``, the module that it imports, ``TASKS``, its methods by task with a word on
each, and a function for each task. The function gets a target, a method and more arguments:

- sample: ``starts, step_size, num_gradients, num_kept, seed``. Starts (seeds, chains, d) give
  draws (seeds, chains, num_kept, d), and the number of gradients of a chain.
- logz: ``num_seeds``. Returns values (seeds,), ends (seeds, 2) or None, and gradients of a seed.
- learn: ``data, points``, which are (seeds, n, d) and (p, d). Returns log densities (seeds, p), up
  to a constant.

The word on a sampler is "exact" if it keeps the target's law, "step" if only small steps do, and
"particles" if the chains of a seed move together.
"""
