"""Dialects: the forms in which services list their methods, one file each.

A dialect asks a :class:`~gateway.listing.dialect.ListingSource` and turns the answers into a
:class:`~gateway.model.Listing`. :mod:`gateway.listing.probe` finds the dialect that a backend speaks.
"""
