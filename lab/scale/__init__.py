"""How far the gateway reaches: a queueing model of measured costs, checked by real runs, and a failover of Redis."""
