"""A stranger's JSON Schema becomes self-contained 2020-12 of bounded cost; compiled checks of values against it."""
