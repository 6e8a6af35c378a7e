"""Charts without a terminal: points and columns, axes, curves that grow, what is seen of them, and how it is painted.

===========  ===============================================================================
``columns``  points in, dot columns out; the smallest and largest of any number of points
``axes``     scales, ticks, and numbers on axes
``dots``     columns as dots, dots as characters
``curve``    the curves of a chart, and what is kept of them while they grow
``view``     which part of them is seen, how, and where the cursor is
``look``     what a chart is made to show, and its legend
``frame``    all of that as strips
===========  ===============================================================================
"""
