"""From a plan to results: what runs when, in which process, judged by what, and who hears of it."""
