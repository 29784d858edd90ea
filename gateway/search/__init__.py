"""Tool search: two tools in place of thousands, and the ranking behind them."""
