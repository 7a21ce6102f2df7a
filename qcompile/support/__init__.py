"""Ground: arrays, files, options, threads and text; nothing here knows of queries or privacy."""
