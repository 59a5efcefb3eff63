"""The API's description: OpenAPI document and HTML page."""
