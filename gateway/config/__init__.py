"""Read file, folder, environment and secret files into Settings, or report all faults at once."""
