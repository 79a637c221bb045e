"""The results of many cases as a table: a row for each case, or for each repeat."""
