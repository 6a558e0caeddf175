"""How good tracks are: HOTA, CLEAR and Identity, and the events behind them."""
