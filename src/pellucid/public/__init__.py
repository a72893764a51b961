"""What everybody may know: schemas, models and clusterings, records asked about, grids, and how a batch of records is seen."""
