"""Write the gateway's logs."""
