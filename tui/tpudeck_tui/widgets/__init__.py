"""Widgets that know nothing of runs: the chart, the table, the form, the bars."""
