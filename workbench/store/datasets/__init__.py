"""Datasets: what agents once answered and should have answered, judged without running them."""
