"""One module for each system, with the same four functions; see `rota_app`."""
