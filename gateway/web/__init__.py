"""HTTP in and out. Protocol decisions are below; here are paths, headers, bodies and statuses."""
