"""One module for each system, with the same five functions; see `rota_app`."""
