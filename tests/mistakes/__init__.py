"""Mistakes that newcomers and operators make, and what they are told: at least the thing, mostly the remedy too."""
