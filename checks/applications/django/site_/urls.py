import hashlib
import logging
import time

from django.conf import settings
from django.contrib import admin
from django.contrib.staticfiles.views import serve
from django.http import HttpResponse, StreamingHttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

VERSION = (settings.BASE_DIR / "VERSION").read_text().strip()
logger = logging.getLogger("django")


def index(request):
    return HttpResponse(f"Hello from Django, version {VERSION}")


def stream(request):
    def parts():
        yield "first\n"
        while not (settings.BASE_DIR / "go").exists():
            time.sleep(0.01)
        yield "last\n"

    return StreamingHttpResponse(parts(), content_type="text/plain")


@csrf_exempt
def upload(request):
    digest = hashlib.sha256()
    while part := request.read(65536):
        digest.update(part)
    return HttpResponse(digest.hexdigest())


def log(request):
    logger.warning("logged %s", request.META["QUERY_STRING"])
    return HttpResponse("ok")


def error(request):
    raise RuntimeError(f"broken on purpose {request.META['QUERY_STRING']}")


urlpatterns = [
    path("", index),
    path("stream", stream),
    path("upload", upload),
    path("log", log),
    path("error", error),
    path("admin/", admin.site.urls),
    # staticfiles_urlpatterns() would have the path of the mount twice.
    path("static/<path:path>", serve),
]
