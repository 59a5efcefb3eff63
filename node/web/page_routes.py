"""The routes of the web page: ``/ui/``, its files, and the way there from ``/``.

The files contain no data of the cluster, so that they need no key; the page gets all data from the
API, with the key of its user.
"""

from aiohttp import web

from rota.node.web.page_files import INDEX, PageFile, page_files

ROOT = "/ui/"
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        # The policy by which Svelte makes its templates; there is no other.
        "trusted-types svelte-trusted-html",
    )
)
"""The page's Content-Security-Policy: its own files and its own API, and no markup from data."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept-Encoding",
}
FOR_A_YEAR = "public, max-age=31536000, immutable"
ASK_EACH_TIME = "no-cache"


def add_page(app: web.Application) -> None:
    """Add the routes of the web page to the application of a node."""
    page_files()  # Read and compressed before the first request, which takes some milliseconds.
    app.router.add_get("/", _from_root)
    app.router.add_get(ROOT.rstrip("/"), _to_page)
    app.router.add_get(ROOT + "{path:.*}", _file)


async def _from_root(request: web.Request) -> web.Response:
    """Send a browser to the page; other clients get the same error as for any unknown path."""
    if "text/html" not in request.headers.get("Accept", ""):
        raise web.HTTPNotFound
    return await _to_page(request)


async def _to_page(_request: web.Request) -> web.Response:
    return web.Response(status=302, headers={"Location": ROOT, "Vary": "Accept"})


async def _file(request: web.Request) -> web.Response:
    file = page_files().get(request.match_info["path"] or INDEX)
    if file is None:
        raise web.HTTPNotFound
    headers = HEADERS | {
        "Cache-Control": FOR_A_YEAR if file.is_hashed else ASK_EACH_TIME,
        "ETag": file.etag,
    }
    if file.etag in request.headers.get("If-None-Match", ""):
        return web.Response(status=304, headers=headers)
    return _sent(file, headers, is_compressed=_accepts_gzip(request))


def _accepts_gzip(request: web.Request) -> bool:
    accepted = request.headers.get("Accept-Encoding", "").lower()
    return any(each.strip() == "gzip" for each in accepted.split(","))


def _sent(file: PageFile, headers: dict[str, str], *, is_compressed: bool) -> web.Response:
    headers["Content-Type"] = file.media_type
    if is_compressed:
        headers["Content-Encoding"] = "gzip"
    return web.Response(body=file.compressed if is_compressed else file.content, headers=headers)
