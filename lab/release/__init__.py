"""The files of a release, made from the commit that is checked out and tried as their users install them."""
