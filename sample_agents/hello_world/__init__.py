"""Dice and primes as a function agent, in English, Chinese and Portuguese."""
