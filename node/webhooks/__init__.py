"""Webhooks: requests for notifications, their signatures, and the delivery with its retries."""
