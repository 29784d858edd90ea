"""The reader of requests against h11: what one of them takes and the other refuses is in a table, or a defect."""
