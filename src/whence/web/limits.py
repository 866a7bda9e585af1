"""The limits of the service, each in one place."""

TEXTS = 32  # per request
TOKENS = 2_000  # per text
CHARACTERS = 32 * TOKENS  # per text; a longer one is refused without counting its tokens
STEPS = 5_000  # per series
WORK = 2**18  # steps that a model may run for the methods of one request that run it many times
FEATURES = 100  # per step of a series
BODY = 2**20  # bytes of a request
BODIES = 64 * 2**20  # bytes of all requests that are being read
HEADERS = 2**15  # bytes of a request's line and headers

HEADER_SECONDS = 10.0  # from opening a connection, or from a request's first byte, to the end of the headers
KEPT_SECONDS = 20.0  # for an idle connection between two requests
BODY_SECONDS = 20.0  # for the whole body
SEND_SECONDS = 30.0  # for each piece of a response
WAIT_SECONDS = 30.0  # from a request's arrival to its answer
STOP_SECONDS = 35.0  # for what is in flight when the service is asked to stop

CONNECTIONS = 2_000  # per process
