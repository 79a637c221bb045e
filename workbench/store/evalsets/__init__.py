"""Eval-set files and the other JSON files of a project, as documents: read with tolerance, edited without loss."""
