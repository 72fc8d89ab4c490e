"""Input lines of the word count demo: a small river journal, written for this purpose."""

from __future__ import annotations

from typing import Final

LINES: Final = (
    "The river begins as a trickle under a stone",
    "a trickle meets a trickle and the stream has a name",
    "at the weir the water waits for the gate",
    "the gate opens and the headrace fills",
    "water in the headrace does not hurry it is already on its way",
    "the wheel turns when the water comes",
    "no water is lost between the gate and the wheel",
    "what the wheel has seen the river keeps",
    "two streams join below the mill and neither forgets its source",
    "the miller counts the sacks the river counts the stones",
    "every drop passes the gate once",
    "when the mill sleeps the water is kept behind the weir",
    "in the morning the gate opens where it closed",
    "a stone in the stream is news for a day",
    "the wheel asks for water and the river answers",
    "rain on the hill is tomorrow at the mill",
    "below the wheel the water is the same water",
    "the river runs all night and the count goes on",
    "a second wheel drinks from the same headrace",
    "one gate two wheels three sacks before noon",
    "the oldest stone remembers the first stream",
    "a dry summer and the count stands still",
    "then rain and the stream finds its name again",
    "the river ends in the sea but the journal does not",
)
