"""The forms in which services list their methods ("dialects"), one file each.

A dialect asks a :class:`~gateway.listing.dialect.ListingSource`, and turns what it sees into a
:class:`~gateway.model.Listing`; :mod:`gateway.listing.probe` finds which one a backend speaks.
"""
